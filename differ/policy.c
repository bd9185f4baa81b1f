/* policy.c - the thresholds of a verdict: defaults, and reading them from JSON.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/policy.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct number { const char *section, *key; size_t at; double min, max; };
static const struct number NUMBERS[] = {
#define THRESHOLD(section, key, field, preset, min, max, meaning, source)                          \
    {#section, #key, offsetof(struct td_policy, field), min, max},
#define FLAG(section, key, field, meaning, source)
#include "differ/policy.def"
#undef FLAG
#undef THRESHOLD
};
#define N_NUMBERS (sizeof NUMBERS / sizeof NUMBERS[0])

struct flag { const char *section, *key; size_t at; };
static const struct flag FLAGS[] = {
#define THRESHOLD(section, key, field, preset, min, max, meaning, source)
#define FLAG(section, key, field, meaning, source)                                                 \
    {#section, #key, offsetof(struct td_policy, field)},
#include "differ/policy.def"
#undef FLAG
#undef THRESHOLD
};
#define N_FLAGS (sizeof FLAGS / sizeof FLAGS[0])

void td_policy_default(struct td_policy *p)
{
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "default");
#define THRESHOLD(section, key, field, preset, min, max, meaning, source) p->field = preset;
#define FLAG(section, key, field, meaning, source)
#include "differ/policy.def"
#undef FLAG
#undef THRESHOLD
}

/* Does NUMBERS[i] begin a section? */
static bool begins_section(size_t i)
{
    return i == 0 || strcmp(NUMBERS[i].section, NUMBERS[i - 1].section) != 0;
}

static bool is_section(const char *name)
{
    size_t i;

    for (i = 0; i < N_NUMBERS; i++)
        if (strcmp(NUMBERS[i].section, name) == 0)
            return true;
    return false;
}

static int unknown_section(const char *name, struct td_error *err)
{
    char known[200] = "";
    size_t i, len = 0;

    for (i = 0; i < N_NUMBERS && len < sizeof known; i++)
        if (begins_section(i))
            len += (size_t)snprintf(known + len, sizeof known - len, " %s", NUMBERS[i].section);
    return td_fail(err, TD_EINVAL, "policy: unknown section \"%s\"; known: name%s", name, known);
}

static int parse_floors(const cJSON *floors, struct td_policy *p, struct td_error *err)
{
    const cJSON *f;

    if (!cJSON_IsObject(floors))
        return td_fail(err, TD_EINVAL,
                       "policy: numerics.floors must be an object such as {\"gptq_gemm/F16\": 4}");
    cJSON_ArrayForEach(f, floors) {
        double v = td_json_num(f, NAN);

        if (p->n_floors == TD_POLICY_MAX_FLOORS)
            return td_fail(err, TD_ELIMIT, "policy: more than %d floors", TD_POLICY_MAX_FLOORS);
        if (!(v >= 0 && v <= 1e9)) /* as numerics.floor */
            return td_fail(err, TD_EINVAL,
                           "policy: numerics.floors.%s must be a number from 0 to 1e+09",
                           f->string);
        if (snprintf(p->floors[p->n_floors].key, sizeof p->floors[0].key, "%s", f->string) >=
            (int)sizeof p->floors[0].key)
            return td_fail(err, TD_EINVAL,
                           "policy: numerics.floors.%s: no kind of op has such a long name",
                           f->string);
        p->floors[p->n_floors++].floor = v;
    }
    return TD_OK;
}

/* Set the flag section.v. 1: set; 0: no flag has this name; < 0: its value is no flag's. */
static int parse_flag(const char *section, const cJSON *v, struct td_policy *p,
                      struct td_error *err)
{
    size_t i;

    for (i = 0; i < N_FLAGS; i++) {
        if (strcmp(section, FLAGS[i].section) != 0 || strcmp(v->string, FLAGS[i].key) != 0)
            continue;
        if (!cJSON_IsBool(v))
            return td_fail(err, TD_EINVAL, "policy: %s.%s must be true or false", section,
                           v->string);
        *(bool *)((char *)p + FLAGS[i].at) = cJSON_IsTrue(v);
        return 1;
    }
    return 0;
}

static int unknown_member(const char *section, const char *key, struct td_error *err)
{
    char known[400] = "";
    size_t i, len = 0;

    for (i = 0; i < N_NUMBERS && len < sizeof known; i++)
        if (strcmp(section, NUMBERS[i].section) == 0)
            len += (size_t)snprintf(known + len, sizeof known - len, " %s", NUMBERS[i].key);
    if (strcmp(section, "numerics") == 0 && len < sizeof known)
        len += (size_t)snprintf(known + len, sizeof known - len, " floors");
    for (i = 0; i < N_FLAGS && len < sizeof known; i++)
        if (strcmp(section, FLAGS[i].section) == 0)
            len += (size_t)snprintf(known + len, sizeof known - len, " %s", FLAGS[i].key);
    return td_fail(err, TD_EINVAL, "policy: unknown threshold %s.%s; known in %s:%s", section, key,
                   section, known);
}

static int parse_member(const char *section, const cJSON *v, struct td_policy *p,
                        struct td_error *err)
{
    size_t i;
    int rc;

    if (strcmp(section, "numerics") == 0 && strcmp(v->string, "floors") == 0)
        return parse_floors(v, p, err);
    rc = parse_flag(section, v, p, err);
    if (rc)
        return rc < 0 ? rc : TD_OK;
    for (i = 0; i < N_NUMBERS; i++) {
        double *to = (double *)((char *)p + NUMBERS[i].at), x;

        if (strcmp(section, NUMBERS[i].section) != 0 || strcmp(v->string, NUMBERS[i].key) != 0)
            continue;
        x = td_json_num(v, NAN);
        if (!(x >= NUMBERS[i].min && x <= NUMBERS[i].max))
            return td_fail(err, TD_EINVAL, "policy: %s.%s must be a number from %g to %g", section,
                           v->string, NUMBERS[i].min, NUMBERS[i].max);
        *to = x;
        if (to == &p->floor)
            p->floor_given = true;
        return TD_OK;
    }
    return unknown_member(section, v->string, err);
}

int td_policy_parse(const cJSON *json, struct td_policy *p, struct td_error *err)
{
    const cJSON *section, *v;
    int rc;

    if (!cJSON_IsObject(json))
        return td_fail(err, TD_EINVAL, "policy: must be a JSON object");
    cJSON_ArrayForEach(section, json) {
        if (strcmp(section->string, "name") == 0 && cJSON_IsString(section)) {
            snprintf(p->name, sizeof p->name, "%s", section->valuestring);
            continue;
        }
        if (!is_section(section->string))
            return unknown_section(section->string, err);
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

/* The members of a section that are no plain numbers. */
static void write_others(const struct td_policy *p, const char *section, struct td_jw *w)
{
    size_t f;
    int i;

    for (f = 0; f < N_FLAGS; f++)
        if (strcmp(FLAGS[f].section, section) == 0)
            td_jw_bool(w, FLAGS[f].key, *(const bool *)((const char *)p + FLAGS[f].at));
    if (strcmp(section, "numerics") != 0)
        return;
    td_jw_obj(w, "floors");
    for (i = 0; i < p->n_floors; i++)
        td_jw_num(w, p->floors[i].key, p->floors[i].floor);
    td_jw_end(w);
}

void td_policy_write(const struct td_policy *p, struct td_jw *w, const char *key)
{
    size_t i;

    td_jw_obj(w, key);
    td_jw_cstr(w, "name", p->name);
    for (i = 0; i < N_NUMBERS; i++) {
        if (begins_section(i))
            td_jw_obj(w, NUMBERS[i].section);
        td_jw_num(w, NUMBERS[i].key, *(const double *)((const char *)p + NUMBERS[i].at));
        if (i + 1 < N_NUMBERS && !begins_section(i + 1))
            continue;
        write_others(p, NUMBERS[i].section, w);
        td_jw_end(w);
    }
    td_jw_end(w);
}

double td_policy_floor(const struct td_policy *p, const char *kind, const char *dtype,
                       double judge_floor)
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
    if (!p->floor_given && judge_floor > 0 && judge_floor < p->floor)
        return judge_floor;
    return p->floor;
}
