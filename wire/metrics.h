/* metrics.h - read a server's /metrics, and find what changed during a phase.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Format: https://prometheus.io/docs/instrumenting/exposition_formats: `name{label="value",...}
 * number [time]` a line; # comments. Only samples of the engine itself are read: names that begin
 * with vllm:, llamacpp: or sglang:. */
#ifndef TD_WIRE_METRICS_H
#define TD_WIRE_METRICS_H

#include <stddef.h>

#include "common/json.h"

#define TD_METRICS_MAX 4096       /* samples */
#define TD_METRICS_MAX_KEY 512    /* bytes of a name with its labels; longer ones are dropped */

struct td_metric { char *key; double value; };   /* key: name and labels as written */
struct td_metrics { struct td_metric *v; size_t n, cap, dropped; };
#define TD_METRICS_INIT {NULL, 0, 0, 0}

/* Append the samples of `text`. Other lines are skipped; samples beyond the maxima are counted in
 * `dropped`. */
void td_metrics_parse(struct td_metrics *m, const char *text, size_t n);
void td_metrics_release(struct td_metrics *m);
/* Compare two snapshots: {"changed": {key: [before, after]}, "constant": n, "dropped": n}. A sample
 * that was not there before counts from 0. The caller deletes the tree. Both snapshots are
 * sorted. */
cJSON *td_metrics_change(struct td_metrics *before, struct td_metrics *after);

#endif
