/* smoke.h - does a server without a baseline answer soundly? Absolute rules on one recording.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_SMOKE_H
#define TD_DIFFER_SMOKE_H

#include "common/buf.h"
#include "differ/verdict.h"
#include "format/records.h"

struct td_smoke {
    size_t prompts;                      /* exchanges, without warm-ups */
    size_t ok, errors, collapsed, empty; /* what became of them */
    bool reached;                        /* some request, warm-ups included, could connect */
    double ttft_p50_ns, tokens_per_s;    /* medians; NaN: not measured */
    enum td_verdict verdict;             /* PASS, REGRESSED; BROKEN: nothing was answered at all */
    char first[300];                     /* the first thing that is wrong */
};

/* xs : [n], the exchanges of the recording */
void td_smoke_check(const struct td_exchange *xs, size_t n, struct td_smoke *out);
/* Append "smoke: ok 4/4 prompts, ttft p50 12 ms, 85 tok/s, model X". */
void td_smoke_line(const struct td_smoke *s, const char *model, struct td_buf *out);

#endif
