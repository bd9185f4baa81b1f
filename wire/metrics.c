/* metrics.c - Prometheus' text format, as far as counters and histograms need it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/metrics.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

static bool is_engine_sample(const char *s, size_t n)
{
    static const char *const prefixes[] = {"vllm:", "llamacpp:", "sglang:"};
    size_t i;

    for (i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (n > strlen(prefixes[i]) && !memcmp(s, prefixes[i], strlen(prefixes[i])))
            return true;
    return false;
}

/* Bytes of "name{labels}": up to the first blank outside quotes. */
static size_t key_len(const char *s, size_t n)
{
    bool quoted = false;
    size_t i;

    for (i = 0; i < n; i++) {
        if (quoted && s[i] == '\\')
            i++;
        else if (s[i] == '"')
            quoted = !quoted;
        else if (!quoted && (s[i] == ' ' || s[i] == '\t'))
            return i;
    }
    return 0;
}

static void read_sample(struct td_metrics *m, const char *s, size_t n)
{
    size_t len = is_engine_sample(s, n) ? key_len(s, n) : 0;
    char number[64], *end;
    double value;

    if (!len)
        return;
    snprintf(number, sizeof number, "%.*s", (int)(n - len - 1 < 60 ? n - len - 1 : 60), s + len + 1);
    value = strtod(number, &end);
    if (end == number)
        return;
    if (len > TD_METRICS_MAX_KEY ||
        td_array_grow(&m->v, m->n, &m->cap, sizeof *m->v, TD_METRICS_MAX) ||
        !(m->v[m->n].key = strndup(s, len))) {
        m->dropped++;
        return;
    }
    m->v[m->n++].value = value;
}

void td_metrics_parse(struct td_metrics *m, const char *text, size_t n)
{
    size_t at = 0;

    while (at < n) {
        const char *nl = memchr(text + at, '\n', n - at);
        size_t len = nl ? (size_t)(nl - text) - at : n - at;

        read_sample(m, text + at, len);
        at += len + 1;
    }
}

void td_metrics_release(struct td_metrics *m)
{
    size_t i;

    for (i = 0; i < m->n; i++)
        free(m->v[i].key);
    free(m->v);
    *m = (struct td_metrics)TD_METRICS_INIT;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct td_metric *)a)->key, ((const struct td_metric *)b)->key);
}

cJSON *td_metrics_change(struct td_metrics *before, struct td_metrics *after)
{
    cJSON *out = cJSON_CreateObject(), *changed = cJSON_AddObjectToObject(out, "changed");
    size_t i, constant = 0;

    if (before->n)
        qsort(before->v, before->n, sizeof *before->v, by_key);
    if (after->n)
        qsort(after->v, after->n, sizeof *after->v, by_key);
    for (i = 0; i < after->n; i++) {
        const struct td_metric *a = &after->v[i];
        const struct td_metric *b = before->n ? bsearch(a, before->v, before->n, sizeof *a, by_key) : NULL;
        double was = b ? b->value : 0;
        cJSON *pair;

        if (was == a->value || (isnan(was) && isnan(a->value))) {
            constant++;
            continue;
        }
        pair = cJSON_AddArrayToObject(changed, a->key);
        cJSON_AddItemToArray(pair, td_json_new_num(was));
        cJSON_AddItemToArray(pair, td_json_new_num(a->value));
    }
    cJSON_AddNumberToObject(out, "constant", (double)constant);
    cJSON_AddNumberToObject(out, "dropped", (double)(before->dropped + after->dropped));
    return out;
}
