/* op_judge_json.c - the judgement of one op as JSON (docs/format.md, "judge").
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/op_judge_json.h"

#include <math.h>
#include <string.h>

#include "kernels/adapters/adapters.h"
#include "replayer/judge_halves.h"

/* The errors of one side, or how it crashed; else null. */
static cJSON *side_json(bool judged, const struct td_judge_result *e, const struct td_run_result *run)
{
    bool died = run && (run->status == TD_RUN_CRASHED || run->status == TD_RUN_HUNG);
    struct td_judge_result none = {0};
    cJSON *j;

    if (!judged && !died)
        return cJSON_CreateNull();
    j = td_judge_result_json(judged ? e : &none, died ? run->reason : NULL);
    if (run && run->varies)
        cJSON_AddTrueToObject(j, "varies");
    return j;
}

/* The recorded output is that of one run; some kernels are known to give another each time. */
static cJSON *recorded_json(const struct td_op_item *it)
{
    cJSON *e = side_json(it->judged_recorded, &it->e_recorded, NULL);

    if (cJSON_IsObject(e) && td_gpu_kernel_adds(it->call.symbol, it->call.layout, td_op_attr(&it->call, "bits", 4),
                                                    td_judge_rows(&it->call.out)))
        cJSON_AddTrueToObject(e, "varies");
    return e;
}

/* Add the roundings, unless all of them are the recorded one. */
static void add_roundings(cJSON *j, const struct td_op_item *it)
{
    const char *recorded = td_op_item_rounding(it, NULL), *baseline = td_op_item_rounding(it, &it->baseline);
    const char *candidate = td_op_item_rounding(it, &it->candidate);
    cJSON *o;

    if (!strcmp(recorded, candidate) && (!it->has_baseline || !strcmp(recorded, baseline)))
        return;
    o = cJSON_AddObjectToObject(j, "roundings");
    cJSON_AddStringToObject(o, "recorded", recorded);
    if (it->has_baseline)
        cJSON_AddStringToObject(o, "baseline", baseline);
    cJSON_AddStringToObject(o, "candidate", candidate);
}

static void add_compared(cJSON *j, const struct td_op_compared *c)
{
    cJSON_AddBoolToObject(j, "reference", false);
    if (!c->done)
        return;
    if (!isnan(c->departs))
        td_judge_add_num(j, "departs", c->departs);
    if (c->baseline_equal >= 0) {
        cJSON_AddNumberToObject(j, "baseline_equal", (double)c->baseline_equal);
        td_judge_add_num(j, "baseline_departs", c->baseline_departs);
    }
    cJSON_AddNumberToObject(j, "unstable", (double)c->unstable);
}

/* Blocks that a build declares and that are too small to be taken. */
static void add_refused_halves(cJSON *j, const struct td_op_item *it)
{
    const int candidate = td_halves_refused(&it->candidate), baseline = it->has_baseline ? td_halves_refused(&it->baseline) : 0;
    cJSON *o = candidate || baseline ? cJSON_AddObjectToObject(j, "halves_refused") : NULL;

    if (candidate)
        cJSON_AddNumberToObject(o, "candidate", candidate);
    if (baseline)
        cJSON_AddNumberToObject(o, "baseline", baseline);
}

cJSON *td_op_judge_json(struct td_op_item *it)
{
    cJSON *j = cJSON_CreateObject();

    cJSON_AddStringToObject(j, "status", td_op_status_name(it->status));
    if (it->status != TD_OP_OK)
        cJSON_AddStringToObject(j, "reason", it->reason);
    if (it->by_gpu)
        cJSON_AddTrueToObject(j, "by_gpu");
    if (it->hold.damaged)
        cJSON_AddTrueToObject(j, "damaged");
    if (it->status == TD_OP_FAILED || it->status == TD_OP_CRASHED || it->status == TD_OP_HUNG)
        cJSON_AddStringToObject(j, "stage", td_proto_stage_name(it->candidate.reached));
    if (it->limits.u_out > 0)
        cJSON_AddItemToObject(j, "limits", td_judge_limits_json(&it->limits));
    cJSON_AddItemToObject(j, "recorded", recorded_json(it));
    cJSON_AddItemToObject(
        j, "baseline",
        side_json(it->judged_baseline, &it->e_baseline, it->has_baseline ? &it->baseline : NULL));
    cJSON_AddItemToObject(j, "candidate", side_json(it->judged_candidate, &it->e_candidate, &it->candidate));
    if (it->judged_candidate && it->halves) {
        cJSON *e = td_judge_result_json(&it->e_halves, NULL);

        cJSON_AddNumberToObject(e, "block", it->halves);
        cJSON_AddStringToObject(e, "side", it->halves_of_baseline ? "baseline" : "candidate");
        cJSON_AddItemToObject(j, "halves", e);
    }
    add_refused_halves(j, it);
    if (it->judged_candidate && it->along_k.step)
        cJSON_AddItemToObject(j, "along_k", td_along_k_json(&it->along_k));
    if (it->judged_candidate && it->place.limit > 0)
        cJSON_AddItemToObject(j, "over", td_judge_place_json(&it->place));
    if (it->has_baseline && it->baseline.status != TD_RUN_OK) {
        cJSON_AddStringToObject(j, "baseline_status", td_run_status_name(it->baseline.status));
        cJSON_AddStringToObject(j, "baseline_reason", it->baseline.reason);
    }
    if (it->equal >= 0) {
        cJSON_AddNumberToObject(j, "equal", (double)it->equal);
        cJSON_AddNumberToObject(j, "total", (double)(it->compared.done ? it->compared.total : it->e_candidate.total));
    }
    if (it->without_reference)
        add_compared(j, &it->compared);
    add_roundings(j, it);
    if (it->judged_candidate || it->judged_recorded || it->judged_baseline)
        td_judge_add_num(j, "format_cost", it->format_cost);
    if (it->digest != TD_DIGEST_NONE)
        cJSON_AddBoolToObject(j, "digest_equal", it->digest == TD_DIGEST_EQUAL);
    cJSON_AddNumberToObject(j, "turn", it->turn);
    if (it->speed)
        cJSON_AddItemToObject(j, "speed", it->speed);
    it->speed = NULL;
    if (*it->untimed)
        cJSON_AddStringToObject(j, "untimed", it->untimed);
    return j;
}
