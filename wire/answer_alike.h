/* answer_alike.h - read an event that differs from the one before it in its text alone, without parsing it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Most events of a stream without logprobs and ids are like that. Whether the text alone may differ is tried once for a
 * given event, on two others that differ from it in that string only: td_answer_read() must make one token of each of
 * them, and nothing else. Whatever else the event says, td_answer_read() has taken from the given event already. So for
 * any bytes the answer is the one that td_answer_read() alone gives. */
#ifndef TD_WIRE_ANSWER_ALIKE_H
#define TD_WIRE_ANSWER_ALIKE_H

#include "wire/answer_state.h"

struct td_answer_alike {
    struct td_buf event;          /* the event before, where another text may stand in [from, to); empty: it is none */
    size_t from, to;
    bool reasoning;               /* the text is the model's reasoning */
    int tries;                    /* that are left; an event alike gives them back */
};
void td_answer_alike_init(struct td_answer_alike *k);
void td_answer_alike_release(struct td_answer_alike *k);
/* td_answer_read() of a streamed event. */
void td_answer_read_event(struct td_answer *a, struct td_answer_alike *k, const char *data, size_t n, int64_t t_ns);

#endif
