/* report_terms_table.c - the table of times in the terms of another tool.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/metric_rows.h"
#include "report/parts.h"
#include "report/report_details.h"
#include "report/text_table.h"

static void add_name(struct td_table *t, const cJSON *side)
{
    char name[48];

    td_metric_fixture(side, name, sizeof name);
    td_table_add(t, "%s", name);
}

static void add_ms(struct td_table *t, const cJSON *term, const char *key)
{
    const double s = td_json_get_num(term, key, NAN);

    isnan(s) ? td_table_add(t, "-") : td_table_add(t, "%.3f ms", s * 1e3);
}

static bool is_percentile(const cJSON *v)
{
    const char *key = td_part_key(v);
    const size_t n = strlen(key);

    return key[0] == 'p' && n > 3 && !strcmp(key + n - 2, "_s");
}

/* The keys of the percentiles: those of the first term of the first fixture, at most max. */
static int find_percentiles(const cJSON *metrics, const char *keys[], int max)
{
    const cJSON *first = cJSON_GetArrayItem(td_json_get(metrics, "fixtures"), 0), *v;
    int n = 0;

    cJSON_ArrayForEach(v, td_json_get(first, td_part_key(cJSON_GetArrayItem(td_json_get(metrics, "names"), 0))))
        if (is_percentile(v) && n < max)
            keys[n++] = td_part_key(v);
    return n;
}

static void add_head(struct td_table *t, const char *const keys[], int n)
{
    int i;

    td_table_add(t, "term");
    td_table_add(t, "fixture");
    td_table_add(t, "n");
    td_table_add(t, "mean");
    for (i = 0; i < n; i++)
        td_table_add(t, "%.*s", (int)strlen(keys[i]) - 2, keys[i]);
    td_table_add(t, "max");
}

enum { MAX_PERCENTILES = TD_TABLE_COLUMNS - 5 };

static void add_times(struct td_buf *out, const cJSON *metrics)
{
    const char *keys[MAX_PERCENTILES];
    const int n = find_percentiles(metrics, keys, MAX_PERCENTILES);
    char align[TD_TABLE_COLUMNS + 1] = "ll";
    const cJSON *name, *side;
    struct td_table t;
    int i;

    memset(align + 2, 'r', (size_t)n + 3);
    td_table_init(&t, align, 2);
    add_head(&t, keys, n);
    cJSON_ArrayForEach(name, td_json_get(metrics, "names"))
        cJSON_ArrayForEach(side, td_json_get(metrics, "fixtures")) {
            const cJSON *term = td_json_get(side, td_part_key(name));

            td_table_add(&t, "%s", td_part_text(name, NULL));
            add_name(&t, side);
            td_table_add(&t, "%lld", (long long)td_json_get_i64(term, "n", 0));
            add_ms(&t, term, "mean_s");
            for (i = 0; i < n; i++)
                add_ms(&t, term, keys[i]);
            add_ms(&t, term, "max_s");
        }
    td_table_write(&t, out);
    td_table_release(&t);
}

static void add_rate(struct td_table *t, const cJSON *part, const char *key)
{
    const double v = td_json_get_num(part, key, NAN);

    isnan(v) ? td_table_add(t, "-") : td_table_add(t, "%.2f", v);
}

static void add_rates(struct td_buf *out, const cJSON *metrics)
{
    const cJSON *side, *goodput = td_json_get(cJSON_GetArrayItem(td_json_get(metrics, "fixtures"), 0), "goodput");
    struct td_table t;

    td_table_init(&t, goodput ? "lrrrrr" : "lrrrr", 2);
    td_table_add(&t, "fixture");
    td_table_add(&t, "exchanges");
    td_table_add(&t, "requests/s");
    td_table_add(&t, "output tokens/s");
    td_table_add(&t, "tokens/s");
    if (goodput)
        td_table_add(&t, "goodput (%s)", td_part_str(goodput, "limits"));
    cJSON_ArrayForEach(side, td_json_get(metrics, "fixtures")) {
        add_name(&t, side);
        td_table_add(&t, "%lld", (long long)(td_json_get_i64(side, "exchanges", 0) - td_json_get_i64(side, "failed", 0)));
        add_rate(&t, side, "requests_per_s");
        add_rate(&t, side, "output_tokens_per_s");
        add_rate(&t, side, "tokens_per_s");
        if (goodput)
            add_rate(&t, td_json_get(side, "goodput"), "requests_per_s");
    }
    td_table_write(&t, out);
    td_table_release(&t);
}

void td_report_add_terms(struct td_buf *out, const cJSON *report)
{
    const cJSON *metrics = td_json_get(report, "metrics");
    char title[120];

    if (!cJSON_GetArraySize(td_json_get(metrics, "fixtures")))
        return;
    snprintf(title, sizeof title, "times in terms of %.40s (nothing is judged by them)", td_part_str(metrics, "terms"));
    td_report_add_title(out, title);
    add_times(out, metrics);
    add_rates(out, metrics);
    td_buf_addc(out, '\n');
}
