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
#define THRESHOLD(section, key, field, preset, min, max) double field;
#include "differ/policy.def"
#undef THRESHOLD
    bool floor_given;            /* the file named numerics.floor: then the replayer's judge proposes none */
    bool accept_format_change;   /* an op that is right by another format than the baseline's passes */
    struct { char key[48]; double floor; } floors[TD_POLICY_MAX_FLOORS]; /* "gptq_gemm/F16" or "gptq_gemm" */
    int n_floors;
};

void td_policy_default(struct td_policy *p);
/* Start from the default and change what the file names. An unknown name is TD_EINVAL and lists the known ones. */
int td_policy_load(const char *path, struct td_policy *p, struct td_error *err);
int td_policy_parse(const cJSON *json, struct td_policy *p, struct td_error *err);
void td_policy_write(const struct td_policy *p, struct td_jw *w, const char *key); /* as the file that would give it */
void td_policy_describe(const struct td_policy *p, struct td_buf *out);            /* two lines for a person */
/* The floor for an op of this kind and output type; judge_floor: what the replayer's judge proposes, NaN: nothing. */
double td_policy_floor(const struct td_policy *p, const char *kind, const char *dtype, double judge_floor);

#endif
