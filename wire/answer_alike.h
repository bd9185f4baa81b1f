/* answer_alike.h - read an event that equals the one before it but for its text, without parsing it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Most events of a stream without logprobs and ids are such. Whether only the text may differ is tried once, on two
 * events that differ from a given one in that string alone: td_answer_read() must make a token each of them, and
 * nothing else. What it made of the given event besides, it made of that event already. So the answer is the one that
 * td_answer_read() alone gives, for any bytes. */
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
