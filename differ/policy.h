/* policy.h - the thresholds of a verdict, and the JSON file that may change them (docs/verdicts.md, "Policy").
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_POLICY_H
#define TD_DIFFER_POLICY_H

#include <stdbool.h>

#include "common/error.h"
#include "common/json.h"

#define TD_POLICY_MAX_FLOORS 64
#define TD_POLICY_MAX_BYTES ((size_t)1 << 20)

struct td_policy {
    char name[64];
    /* numerics: scores are errors in units of what correct rounding allows; 1 is a correctly rounded result */
    double floor;                /* below this no element is ever worse */
    bool floor_given;            /* the file named it: it then stands over what the replayer's judge proposes */
    double floor_rms;            /* the same for the rms of a row, a column, a tile */
    double factor;               /* worse must exceed this many times the baseline's own worst */
    bool accept_format_change;
    struct { char key[48]; double floor; } floors[TD_POLICY_MAX_FLOORS]; /* "gptq_gemm/F16" or "gptq_gemm" */
    int n_floors;
    /* tokens */
    double tokens_alpha;         /* forks: one-sided level of the two tests against the noise */
    double gap_max;              /* no fork at a larger top-2 gap (nats) is ever noise */
    /* scores: of recorded answers, and of prompts, under the candidate */
    double scores_nll_max;       /* nats a token by which they may become less likely, on the mean over all */
    double scores_text_nll_max;  /* over the tokens of one answer */
    /* speed: effects as shares, 0.05 is 5 % slower */
    double speed_alpha;          /* family-wise level of all intervals of a lane */
    double ops_effect;           /* smallest slowdown of an op group that counts */
    double ops_noise;            /* its interval must also lie above this */
    double server_effect;
    double start_spread;         /* two starts of one build differ by this much anyway */
    double detect;               /* a lane that could not have seen a total slowdown this large has too little data */
};

void td_policy_default(struct td_policy *p);
/* Start from the default and change what the file names. An unknown name is TD_EINVAL and lists the known ones. */
int td_policy_load(const char *path, struct td_policy *p, struct td_error *err);
int td_policy_parse(const cJSON *json, struct td_policy *p, struct td_error *err);
void td_policy_write(const struct td_policy *p, struct td_jw *w, const char *key);
/* The floor for an op of this kind and output type; judge_floor: what the replayer's judge proposes, NaN: nothing. */
double td_policy_floor(const struct td_policy *p, const char *kind, const char *dtype, double judge_floor);

#endif
