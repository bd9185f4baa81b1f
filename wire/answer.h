/* answer.h - the content of an answer, event by event: tokens, logprobs, text, usage, errors in every dialect.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WIRE_ANSWER_H
#define TD_WIRE_ANSWER_H

#include "wire/answer_state.h"

/* One SSE event's data, or a whole body. t_ns: when it was complete. streamed: an event of a stream. */
void td_answer_read(struct td_answer *a, const char *data, size_t n, int64_t t_ns, bool streamed);
/* The data of an "error:" line. */
void td_answer_stream_error(struct td_answer *a, const char *data, size_t n);
/* The body of an answer with an error status, in any of the forms that are known, as one sentence. */
void td_answer_http_error(struct td_answer *a, int status, const char *location, const char *body, size_t n);
/* Move what was gathered into x (tokens, logprobs, text, usage, events; not the error). TD_OK or TD_ENOMEM. */
int td_answer_finish(struct td_answer *a, struct td_exchange *x);

#endif
