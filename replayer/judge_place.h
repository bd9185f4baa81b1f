/* judge_place.h - where in its output an op is over the limit: which rows, which columns, and
 * whether they follow a pattern.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_JUDGE_PLACE_H
#define TD_REPLAYER_JUDGE_PLACE_H

#include "replayer/judge.h"

/* An op counts as over its limit in replay's own words when its score is over the judge's floor,
 * and over so many times the baseline's (numerics.factor of the default policy). */
#define TD_JUDGE_OVER_FACTOR 4

/* Rows, or columns, that are over the limit. */
struct td_judge_set {
    int64_t bad, all;
    int64_t first, last;            /* -1: none is bad */
    int64_t period, from, to;       /* period > 0: all bad ones lie at [from, to] of each so many */
};

struct td_judge_place {
    double limit;
    bool of_rms;                    /* no element is over the limit: rows and columns whose rms is
                                       over half of it */
    struct td_judge_set rows, cols;
};

/* Describe n flags. A period is found where so many bad ones are hardly in one part of each period
 * by chance, and where it says more than first and last do. */
void td_judge_set_find(const bool *bad, int64_t n, struct td_judge_set *out);

/* Find the rows and columns with an element over the limit.
 *   ref, out, image, lim : as td_judge_output()
 * TD_ENOMEM. */
int td_judge_place_find(const struct td_op_ref *ref, const struct td_tensor *out, const void *image,
                        const struct td_judge_limits *lim, double limit,
                        struct td_judge_place *place, struct td_error *err);

/* {"limit":4,"of":"element","rows":{…},"cols":{…}} (docs/format.md, "judge"). NULL: out of
 * memory. */
cJSON *td_judge_place_json(const struct td_judge_place *place);

#endif
