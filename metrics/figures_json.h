/* figures_json.h - the figures of measured exchanges as JSON: what fixture stats --json and differ --json have in common.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_METRICS_FIGURES_JSON_H
#define TD_METRICS_FIGURES_JSON_H

#include "common/json.h"
#include "metrics/figures.h"

#define TD_PERCENTILES_DEFAULT "50,90,95,99"

/* What a user asked for beside the terms. */
struct td_wanted {
    struct td_goodput goodput;
    const char *goodput_text; /* as it was asked for */
    struct td_percentiles percentiles;
};

/* Read the options; NULL: the default of each. TD_EINVAL. */
int td_wanted_read(const char *goodput, const char *percentiles, enum td_dialect d, struct td_wanted *out, struct td_error *err);

/* Into the open object: the members terms, source, names, definitions. */
void td_terms_write(enum td_dialect d, struct td_jw *w);
/* Into the open object: the figures of all exchanges, then `parts`, those of each part. TD_OK or TD_ENOMEM. */
int td_figures_write(const struct td_measured_set *of, const struct td_wanted *wanted, struct td_jw *w, struct td_error *err);
/* An object with the numbers of one term: n, mean_s, std_s, min_s, p50_s ..., max_s. */
void td_spread_write(struct td_jw *w, const char *key, const struct td_spread *s, const struct td_percentiles *p);

#endif
