/* metric_rows.h - the times of a report in the terms of a tool, row by row.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Of the member "metrics" of a report (docs/report-formats.md). Nothing is judged by them. */
#ifndef TD_REPORT_METRIC_ROWS_H
#define TD_REPORT_METRIC_ROWS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "report/parts.h"

/* A term of a fixture. Strings and figures are the report's. */
struct td_metric_row {
    const char *key, *name;   /* "ttft", "TTFT" */
    char fixture[48];         /* "baseline", "candidate 2" */
    const cJSON *figures;     /* "n", "mean_s", "p50_s" ... in s */
};
/* Row i: term by term, each of all fixtures. False: there are no more. */
bool td_metric_row_at(const cJSON *report, size_t i, struct td_metric_row *out);

/* A rate of a fixture, or its goodput. */
struct td_metric_rate { const char *key; char fixture[48], value[TD_FIGURE_MAX]; };
/* Rate i: fixture by fixture. False: there are no more. */
bool td_metric_rate_at(const cJSON *report, size_t i, struct td_metric_rate *out);

/* "baseline", or with a round after the first "candidate 2". */
void td_metric_fixture(const cJSON *side, char *out, size_t n);
/* The name of a figure without its unit: "p50" of "p50_s". *unit: "s", or "" of a count. False: it is none. */
bool td_metric_figure(const cJSON *figure, char *name, size_t n, const char **unit);

#endif
