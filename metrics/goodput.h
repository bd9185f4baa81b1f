/* goodput.h - which exchanges kept given limits.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An exchange is good if it did not fail and none of the terms with a limit exceeds it. A term that it does not have,
 * as an answer of one token has no TPOT, is
 *   tapedeck, vllm          kept; TTFT and E2E are always due
 *   aiperf, inference-perf  exceeded
 *   guidellm                neither: the exchange is not judged */
#ifndef TD_METRICS_GOODPUT_H
#define TD_METRICS_GOODPUT_H

#include "metrics/measured.h"

struct td_goodput {
    bool asked;
    double limit[TD_N_TERMS]; /* s; NaN: none */
};

/* Read "ttft:200ms,itl:50ms": names of terms that the dialect has, limits in ms, us or s; without a unit ms, as in the
 * tools. What GuideLLM calls tpot there is its ITL. TD_EINVAL. */
int td_goodput_parse(const char *text, enum td_dialect d, struct td_goodput *out, struct td_error *err);

/* 1: good, 0: not, -1: not judged. */
int td_goodput_of(const struct td_goodput *g, enum td_dialect d, const struct td_measured *x);

#endif
