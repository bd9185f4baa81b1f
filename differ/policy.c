/* policy.c - default thresholds and reading them from JSON. Why each has its value: docs/verdicts.md.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/policy.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct number { const char *section, *key; size_t at; double min, max; };
#define NUM(section, key, field, min, max) {section, key, offsetof(struct td_policy, field), min, max}
static const struct number NUMBERS[] = {
    NUM("numerics", "floor", floor, 0, 1e9),
    NUM("numerics", "floor_rms", floor_rms, 0, 1e9),
    NUM("numerics", "factor", factor, 1, 1e6),
    NUM("tokens", "alpha", tokens_alpha, 1e-9, 0.5),
    NUM("tokens", "gap_max", gap_max, 0, 1e6),
    NUM("scores", "nll_max", scores_nll_max, 0, 1e6),
    NUM("scores", "text_nll_max", scores_text_nll_max, 0, 1e6),
    NUM("speed", "alpha", speed_alpha, 1e-9, 0.5),
    NUM("speed", "ops_effect", ops_effect, 0, 100),
    NUM("speed", "ops_noise", ops_noise, 0, 100),
    NUM("speed", "server_effect", server_effect, 0, 100),
    NUM("speed", "start_spread", start_spread, 0, 100),
    NUM("speed", "detect", detect, 0, 100),
};
#define N_NUMBERS (sizeof NUMBERS / sizeof NUMBERS[0])

void td_policy_default(struct td_policy *p)
{
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "default");
    p->floor = 4;
    p->floor_rms = 2;
    p->factor = 4;
    p->tokens_alpha = 0.05;
    p->gap_max = 1.0;
    p->scores_nll_max = 0.05;
    p->scores_text_nll_max = 0.25;
    p->speed_alpha = 0.05;
    p->ops_effect = 0.05;
    p->ops_noise = 0.02;
    p->server_effect = 0.05;
    p->start_spread = 0.05;
    p->detect = 0.10;
}

static int parse_floors(const cJSON *floors, struct td_policy *p, struct td_error *err)
{
    const cJSON *f;

    if (!cJSON_IsObject(floors))
        return td_fail(err, TD_EINVAL, "policy: numerics.floors must be an object such as {\"gptq_gemm/F16\": 4}");
    cJSON_ArrayForEach(f, floors) {
        double v = td_json_num(f, NAN);

        if (p->n_floors == TD_POLICY_MAX_FLOORS)
            return td_fail(err, TD_ELIMIT, "policy: more than %d floors", TD_POLICY_MAX_FLOORS);
        if (!(v >= 0 && v <= 1e9)) /* as numerics.floor */
            return td_fail(err, TD_EINVAL, "policy: numerics.floors.%s must be a number from 0 to 1e+09", f->string);
        if (snprintf(p->floors[p->n_floors].key, sizeof p->floors[0].key, "%s", f->string) >= (int)sizeof p->floors[0].key)
            return td_fail(err, TD_EINVAL, "policy: numerics.floors.%s: no kind of op has such a long name", f->string);
        p->floors[p->n_floors++].floor = v;
    }
    return TD_OK;
}

static int parse_member(const char *section, const cJSON *v, struct td_policy *p, struct td_error *err)
{
    char known[400] = "";
    size_t i, len = 0;

    if (strcmp(section, "numerics") == 0 && strcmp(v->string, "floors") == 0)
        return parse_floors(v, p, err);
    if (strcmp(section, "numerics") == 0 && strcmp(v->string, "accept_format_change") == 0) {
        if (!cJSON_IsBool(v))
            return td_fail(err, TD_EINVAL, "policy: numerics.accept_format_change must be true or false");
        p->accept_format_change = cJSON_IsTrue(v);
        return TD_OK;
    }
    for (i = 0; i < N_NUMBERS; i++) {
        double *to = (double *)((char *)p + NUMBERS[i].at), x;

        if (strcmp(section, NUMBERS[i].section) != 0)
            continue;
        len += (size_t)snprintf(known + len, sizeof known - len, " %s", NUMBERS[i].key);
        if (strcmp(v->string, NUMBERS[i].key) != 0)
            continue;
        x = td_json_num(v, NAN);
        if (!(x >= NUMBERS[i].min && x <= NUMBERS[i].max))
            return td_fail(err, TD_EINVAL, "policy: %s.%s must be a number from %g to %g", section, v->string, NUMBERS[i].min,
                           NUMBERS[i].max);
        *to = x;
        if (to == &p->floor)
            p->floor_given = true;
        return TD_OK;
    }
    return td_fail(err, TD_EINVAL, "policy: unknown threshold %s.%s; known in %s:%s%s", section, v->string, section, known,
                   strcmp(section, "numerics") == 0 ? " floors accept_format_change" : "");
}

int td_policy_parse(const cJSON *json, struct td_policy *p, struct td_error *err)
{
    const cJSON *section, *v;
    int rc;

    if (!cJSON_IsObject(json))
        return td_fail(err, TD_EINVAL, "policy: a JSON object is due");
    cJSON_ArrayForEach(section, json) {
        if (strcmp(section->string, "name") == 0 && cJSON_IsString(section)) {
            snprintf(p->name, sizeof p->name, "%s", section->valuestring);
            continue;
        }
        if (strcmp(section->string, "numerics") != 0 && strcmp(section->string, "tokens") != 0 &&
            strcmp(section->string, "scores") != 0 && strcmp(section->string, "speed") != 0)
            return td_fail(err, TD_EINVAL, "policy: unknown section \"%s\"; known: name numerics tokens scores speed", section->string);
        if (!cJSON_IsObject(section))
            return td_fail(err, TD_EINVAL, "policy: \"%s\" must be an object", section->string);
        cJSON_ArrayForEach(v, section) {
            rc = parse_member(section->string, v, p, err);
            if (rc)
                return rc;
        }
    }
    return TD_OK;
}

int td_policy_load(const char *path, struct td_policy *p, struct td_error *err)
{
    cJSON *json = td_json_load(path, TD_POLICY_MAX_BYTES, err);
    int rc;

    rc = json ? td_policy_parse(json, p, err) : TD_EINVAL;
    cJSON_Delete(json);
    if (rc && err) {
        if (json)
            td_fail_at(err, "%s", path);
        err->code = TD_EINVAL; /* whatever is wrong with it, the user named it */
    }
    return rc ? TD_EINVAL : TD_OK;
}

void td_policy_write(const struct td_policy *p, struct td_jw *w, const char *key)
{
    static const char *const SECTIONS[] = {"numerics", "tokens", "scores", "speed"};
    size_t s, i;
    int f;

    td_jw_obj(w, key);
    td_jw_cstr(w, "name", p->name);
    for (s = 0; s < sizeof SECTIONS / sizeof *SECTIONS; s++) {
        td_jw_obj(w, SECTIONS[s]);
        for (i = 0; i < N_NUMBERS; i++)
            if (strcmp(NUMBERS[i].section, SECTIONS[s]) == 0)
                td_jw_num(w, NUMBERS[i].key, *(const double *)((const char *)p + NUMBERS[i].at));
        if (s == 0) {
            td_jw_bool(w, "accept_format_change", p->accept_format_change);
            td_jw_obj(w, "floors");
            for (f = 0; f < p->n_floors; f++)
                td_jw_num(w, p->floors[f].key, p->floors[f].floor);
            td_jw_end(w);
        }
        td_jw_end(w);
    }
    td_jw_end(w);
}

double td_policy_floor(const struct td_policy *p, const char *kind, const char *dtype, double judge_floor)
{
    char key[80];
    int i;

    snprintf(key, sizeof key, "%s/%s", kind, dtype);
    for (i = 0; i < p->n_floors; i++)
        if (strcmp(p->floors[i].key, key) == 0)
            return p->floors[i].floor;
    for (i = 0; i < p->n_floors; i++)
        if (strcmp(p->floors[i].key, kind) == 0)
            return p->floors[i].floor;
    if (!p->floor_given && judge_floor > 0)
        return judge_floor;
    return p->floor;
}
