/* records_json.c - helpers for records as JSON lines.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/records_json.h"
#include "common/out_of_memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_named(const char *const *names, const char *s)
{
    for (; names && *names; names++)
        if (!strcmp(*names, s))
            return true;
    return false;
}

cJSON *td_rec_extra(const cJSON *obj, const char *const *known)
{
    cJSON *extra = NULL;
    const cJSON *m;

    cJSON_ArrayForEach(m, obj) {
        if (!m->string || is_named(known, m->string))
            continue;
        if (!extra)
            extra = cJSON_CreateObject();
        cJSON_AddItemToObject(extra, m->string, cJSON_Duplicate(m, true));
    }
    return extra;
}

void td_rec_put_extra(struct td_jw *w, const cJSON *extra, const char *const *skip)
{
    const cJSON *m;

    cJSON_ArrayForEach(m, extra)
        if (m->string && !is_named(skip, m->string))
            td_jw_value(w, m->string, m);
}

char *td_rec_dup(const cJSON *obj, const char *key)
{
    const char *s = td_json_get_str(obj, key, NULL);

    return s ? td_strdup(s) : NULL;
}

void td_rec_put_str(struct td_jw *w, const char *key, const char *s)
{
    cJSON v = {.type = cJSON_String, .valuestring = (char *)(uintptr_t)s};

    if (s && (unsigned char)s[0] == 0xC0 && (unsigned char)s[1] != 0x80)
        td_jw_cstr(w, key, s); /* bad UTF-8 of the caller's, not json.h's mark for a large integer or NaN */
    else if (s)
        td_jw_value(w, key, &v);
}

void td_rec_put_float(struct td_jw *w, const char *key, float v)
{
    char s[40];
    int digits;

    for (digits = 6; digits <= 9 && isfinite(v); digits++) {
        snprintf(s, sizeof s, "%.*g", digits, (double)v);
        if (strtof(s, NULL) == v) {
            td_jw_num(w, key, strtod(s, NULL));
            return;
        }
    }
    td_jw_num(w, key, (double)v);
}

int64_t td_rec_count(const cJSON *obj, const char *key, int64_t max, struct td_error *err)
{
    const cJSON *a = td_json_get(obj, key), *m;
    int64_t n = 0;

    if (!a || cJSON_IsNull(a))
        return 0;
    if (!cJSON_IsArray(a))
        return td_fail(err, TD_ECORRUPT, "\"%s\" is no array", key);
    cJSON_ArrayForEach(m, a)
        n++;
    return n <= max ? n
                    : td_fail(err, TD_ELIMIT, "\"%s\" holds %lld items, the maximum is %lld", key,
                              (long long)n, (long long)max);
}

int td_rec_ints(const cJSON *obj, const char *key, int32_t **out, int32_t *n, struct td_error *err)
{
    int64_t count = td_rec_count(obj, key, TD_REC_MAX_TOKENS, err), v;
    const cJSON *m;
    int32_t i = 0;

    *out = NULL;
    *n = 0;
    if (count < 0)
        return (int)count;
    if (!cJSON_IsArray(td_json_get(obj, key)))
        return TD_OK;
    *out = malloc(((size_t)count + 1) * sizeof **out);
    if (!*out)
        return td_fail(err, TD_ENOMEM, "no memory for \"%s\"", key);
    cJSON_ArrayForEach(m, td_json_get(obj, key)) {
        v = td_json_i64(m, INT64_MIN);
        if (v < INT32_MIN || v > INT32_MAX) {
            free(*out);
            *out = NULL;
            return td_fail(err, TD_ECORRUPT, "\"%s\"[%d] is no 32-bit integer", key, i);
        }
        (*out)[i++] = (int32_t)v;
    }
    *n = i;
    return TD_OK;
}

int td_rec_name(const char *const *names, int n, const char *s, int missing)
{
    int i;

    for (i = 0; s && i < n; i++)
        if (!strcmp(names[i], s))
            return i;
    return missing;
}
