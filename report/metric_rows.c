/* metric_rows.c - the times of a report in the terms of a tool, row by row.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/metric_rows.h"

#include <stdio.h>
#include <string.h>

#include "common/json.h"

static const cJSON *metrics_of(const cJSON *report)
{
    return td_json_get(report, "metrics");
}

void td_metric_fixture(const cJSON *side, char *out, size_t n)
{
    const int64_t round = td_json_get_i64(side, "round", 0);

    if (round)
        snprintf(out, n, "%.20s %lld", td_part_str(side, "role"), (long long)round + 1);
    else
        snprintf(out, n, "%.40s", td_part_str(side, "role"));
}

bool td_metric_row_at(const cJSON *report, size_t i, struct td_metric_row *out)
{
    const cJSON *names = td_json_get(metrics_of(report), "names"), *fixtures = td_json_get(metrics_of(report), "fixtures"), *name, *side;
    const size_t n = (size_t)cJSON_GetArraySize(fixtures);

    if (!n || !(name = cJSON_GetArrayItem(names, (int)(i / n))))
        return false;
    side = cJSON_GetArrayItem(fixtures, (int)(i % n));
    *out = (struct td_metric_row){.key = td_part_key(name), .name = td_part_text(name, NULL),
                                  .figures = td_json_get(side, td_part_key(name))};
    td_metric_fixture(side, out->fixture, sizeof out->fixture);
    return true;
}

bool td_metric_rate_at(const cJSON *report, size_t i, struct td_metric_rate *out)
{
    static const char *const RATES[] = {"requests_per_s", "output_tokens_per_s", "tokens_per_s", "goodput"};
    const size_t n = sizeof RATES / sizeof *RATES, which = i % n;
    const cJSON *side = cJSON_GetArrayItem(td_json_get(metrics_of(report), "fixtures"), (int)(i / n));

    if (!side)
        return false;
    *out = (struct td_metric_rate){.key = RATES[which]};
    td_metric_fixture(side, out->fixture, sizeof out->fixture);
    if (which + 1 < n)
        td_part_number(side, RATES[which], out->value);
    else
        td_part_number(td_json_get(side, "goodput"), "requests_per_s", out->value);
    return true;
}

bool td_metric_figure(const cJSON *figure, char *name, size_t n, const char **unit)
{
    const char *key = td_part_key(figure);
    const size_t len = strlen(key);
    const bool seconds = len > 2 && !strcmp(key + len - 2, "_s");

    snprintf(name, n, "%.*s", (int)(seconds ? len - 2 : len), key);
    *unit = seconds ? "s" : "";
    return seconds || !strcmp(key, "n");
}
