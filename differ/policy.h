/* policy.h - the thresholds of a verdict, and the JSON file that may change them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The file is described in docs/policy.md. */
#ifndef TD_DIFFER_POLICY_H
#define TD_DIFFER_POLICY_H

#include <stdbool.h>

#include "common/error.h"
#include "common/json.h"

#define TD_POLICY_MAX_FLOORS 64
#define TD_POLICY_MAX_BYTES ((size_t)1 << 20)

struct td_policy {
    char name[64];
#define THRESHOLD(section, key, field, preset, min, max, meaning, source) double field;
#define FLAG(section, key, field, meaning, source) bool field;
#include "differ/policy.def"
#undef FLAG
#undef THRESHOLD
    bool floor_given;            /* the file sets numerics.floor, which then beats the judge's
                                    proposal */
    struct {
        char key[48];            /* kind of op and type of output, "gptq_gemm/F16", or kind alone */
        double floor;
    } floors[TD_POLICY_MAX_FLOORS];
    int n_floors;
};

void td_policy_default(struct td_policy *p);
/* Change the thresholds that the file names; p holds the defaults. TD_EINVAL: the file cannot be
 * read, or it holds an unknown name (the error lists the known ones) or a value out of range. */
int td_policy_load(const char *path, struct td_policy *p, struct td_error *err);
int td_policy_parse(const cJSON *json, struct td_policy *p, struct td_error *err);
/* Write the policy as JSON, as a file that would set every threshold. */
void td_policy_write(const struct td_policy *p, struct td_jw *w, const char *key);
/* The floor for an op of this kind and output type. judge_floor: what the replayer's judge
 * proposes for the op, which counts where it is stricter (a fixture may say anything); NaN:
 * nothing. */
double td_policy_floor(const struct td_policy *p, const char *kind, const char *dtype,
                       double judge_floor);

#endif
