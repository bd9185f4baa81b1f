/* judge_json.c - a judgement as JSON (docs/format.md, "judge").
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/json.h"
#include "replayer/judge.h"

void td_judge_add_num(cJSON *obj, const char *key, double v)
{
    cJSON_AddItemToObject(obj, key, td_json_new_num(v));
}

static void add_spot(cJSON *obj, const char *key, int64_t i, int64_t j, double rms)
{
    cJSON *a = cJSON_AddArrayToObject(obj, key);

    if (i >= 0)
        cJSON_AddItemToArray(a, cJSON_CreateNumber((double)i));
    if (j >= 0)
        cJSON_AddItemToArray(a, cJSON_CreateNumber((double)j));
    cJSON_AddItemToArray(a, td_json_new_num(rms));
}

cJSON *td_judge_result_json(const struct td_judge_result *res, const char *crash)
{
    cJSON *e = cJSON_CreateObject();

    if (!e)
        return NULL;
    if (crash)
        cJSON_AddStringToObject(e, "crash", crash);
    if (!res->total && crash)
        return e; /* nothing came back: the crash is all there is to say */
    td_judge_add_num(e, "score", res->score);
    td_judge_add_num(e, "rel_l2", res->rel_l2);
    td_judge_add_num(e, "r0_rel_l2", res->r0_rel_l2);
    td_judge_add_num(e, "max_abs", res->max_abs);
    add_spot(e, "worst_row", res->worst_row.i, -1, res->worst_row.rms);
    add_spot(e, "worst_col", -1, res->worst_col.j, res->worst_col.rms);
    add_spot(e, "worst_tile", res->worst_tile.i, res->worst_tile.j, res->worst_tile.rms);
    cJSON_AddNumberToObject(e, "nan", (double)res->nan);
    cJSON_AddNumberToObject(e, "inf", (double)res->inf);
    cJSON_AddNumberToObject(e, "zero", (double)res->zero);
    cJSON_AddNumberToObject(e, "ref_nonzero", (double)res->ref_nonzero);
    cJSON_AddNumberToObject(e, "ref_nonfinite", (double)res->ref_nonfinite);
    cJSON_AddNumberToObject(e, "repeats", res->repeats);
    cJSON_AddNumberToObject(e, "unstable", (double)res->unstable);
    cJSON_AddNumberToObject(e, "odd_runs", res->odd_runs);
    td_judge_add_num(e, "spread", res->spread);
    if (res->worst_run)
        cJSON_AddNumberToObject(e, "worst_run", res->worst_run);
    if (res->in_order)
        cJSON_AddBoolToObject(e, "in_order", true);
    if (res->slices.rows)
        cJSON_AddItemToObject(e, "slices", td_slices_json(&res->slices));
    return e;
}

cJSON *td_judge_limits_json(const struct td_judge_limits *lim)
{
    cJSON *o = cJSON_CreateObject();

    if (!o)
        return NULL;
    td_judge_add_num(o, "u_out", lim->u_out);
    td_judge_add_num(o, "u_acc", lim->u_acc);
    td_judge_add_num(o, "tiny", lim->tiny);
    td_judge_add_num(o, "floor", lim->floor);
    return o;
}
