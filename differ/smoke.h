/* smoke.h - does a server without a baseline answer soundly? Absolute rules on one recording.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each answer by itself: no error, not empty, no hard collapse but a loop. All answers together, with limits
 * that sound servers stay far away from (docs/verdicts.md, "Smoke"):
 *   - not every prompt ends in a loop, nor three of them in the same one (one that does is no
 *     trouble: small models loop)
 *   - the tokens spell some text
 *   - the server is not unsure of all that it writes
 *   - a greedy prompt that is sent twice gets the same answer, but for a close call
 *   - what a server said of its tokens while it answered, it says again when it reads them (where
 * it scores prompts)
 *   - token ids can be those of the answers (smoke_ids.h) */
#ifndef TD_DIFFER_SMOKE_H
#define TD_DIFFER_SMOKE_H

#include "common/buf.h"
#include "differ/verdict.h"
#include "format/records.h"

struct td_smoke {
    size_t prompts, ok;               /* different prompts; those with sound answers only */
    size_t errors, collapsed, empty;  /* answers, without warm-ups */
    size_t filled, same_loop;         /* prompts that end in a loop or hold hardly any text;
                                         most prompts that end in one and the same loop */
    int64_t tokens, visible;          /* of all answers; visible: bytes that are no blanks */
    double logprob;                   /* mean of the tokens chosen; NaN: not known */
    double repeat_gap;                /* a prompt sent twice forked at this gap, in nats; 0: it
                                         did not; NaN: it forked, the gap is not known */
    double said_apart;                /* mean distance of a token's logprob, said and scored;
                                         NaN: not scored */
    size_t unseen;                    /* answers and scorings that say nothing of the server
                                         (td_exchange_unseen) */
    bool reached;                     /* some request, warm-ups included, could connect */
    double ttft_p50_ns, tokens_per_s; /* medians; NaN: not measured */
    enum td_verdict verdict;          /* PASS, REGRESSED; BROKEN: nothing was answered at
                                         all, or what is wrong is not the server's */
    char first[300];                  /* the first thing that is wrong */
};

/* xs    : [n], the exchanges of the recording
 * vocab : how many tokens the server says that its model has; 0: it does not say */
void td_smoke_check(const struct td_exchange *xs, size_t n, int64_t vocab, struct td_smoke *out);
/* Append "smoke: ok 4/4 prompts, ttft p50 12 ms, 85 tok/s, model X". */
void td_smoke_line(const struct td_smoke *s, const char *model, struct td_buf *out);

#endif
