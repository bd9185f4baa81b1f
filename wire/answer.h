/* answer.h - read what servers answer, in every dialect: an SSE event or a complete body at a time.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WIRE_ANSWER_H
#define TD_WIRE_ANSWER_H

#include "wire/answer_state.h"

/* Read one SSE event's data (streamed), or a complete body.
 *   t_ns : when its last byte was read
 * Data that is no answer of a known dialect becomes the error "parse" or "stream". */
void td_answer_read(struct td_answer *a, const char *data, size_t n, int64_t t_ns, bool streamed);
/* Read the data of an "error:" line. */
void td_answer_stream_error(struct td_answer *a, const char *data, size_t n);
/* Turn the body of an answer with an error status, in any known form, into the answer's error. */
void td_answer_http_error(struct td_answer *a, int status, const char *location, const char *body, size_t n);
/* Move tokens, logprobs, text, usage and events into x; the error stays. TD_OK or TD_ENOMEM. */
int td_answer_finish(struct td_answer *a, struct td_exchange *x);

#endif
