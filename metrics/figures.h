/* figures.h - the figures of a set of measured exchanges, or of a part of it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_METRICS_FIGURES_H
#define TD_METRICS_FIGURES_H

#include "metrics/goodput.h"
#include "metrics/measured.h"
#include "metrics/spread.h"

/* A part: exchanges of one category that were sent with one concurrency. Of what others sent (a passive recording)
 * concurrency is how many were in flight, which changes with each exchange: such a part holds 1, 2 to 3, 4 to 7, ..., and
 * says nothing of throughput, for the others' requests ran in the same time. */
struct td_part { const char *category; int32_t concurrency, up_to; bool by_others; };

struct td_figures {
    int64_t exchanges, failed;
    int64_t input_tokens, output_tokens;  /* of those that did not fail */
    double duration_s;                    /* from the first to the last of them; NaN: none has times */
    double requests_per_s, output_per_s, tokens_per_s; /* of those that did not fail, by duration_s */
    int64_t good, judged;                 /* by the limits */
    double good_per_s;                    /* NaN: no limits were asked for */
    struct td_spread term[TD_N_TERMS];    /* s */
};

/* The figures of m, or of its part that is named.
 *   part : NULL: all
 * TD_OK or TD_ENOMEM. */
int td_figures_of(const struct td_measured_set *m, const struct td_part *part, const struct td_goodput *g,
                  const struct td_percentiles *p, struct td_figures *out, struct td_error *err);

/* The parts of m, by category and concurrency; *out is for free(), what it points at is m's. */
int td_parts_of(const struct td_measured_set *m, struct td_part **out, size_t *n, struct td_error *err);

#endif
