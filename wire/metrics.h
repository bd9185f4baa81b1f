/* metrics.h - what a server counts itself: /metrics in Prometheus' text format, before and after a phase.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Format: https://prometheus.io/docs/instrumenting/exposition_formats: `name{label="value",...} number [time]` a line; # comments.
 * Kept are the samples of the engine itself: names that begin with vllm:, llamacpp: or sglang:. */
#ifndef TD_WIRE_METRICS_H
#define TD_WIRE_METRICS_H

#include <stddef.h>

#include "common/json.h"

#define TD_METRICS_MAX 4096       /* samples */
#define TD_METRICS_MAX_KEY 512    /* bytes of a name with its labels; longer ones are dropped */

struct td_metric { char *key; double value; };   /* key: name and labels as they stand there */
struct td_metrics { struct td_metric *v; size_t n, cap, dropped; };
#define TD_METRICS_INIT {NULL, 0, 0, 0}

/* Append the samples of `text`. What is no sample is skipped; beyond the maxima they are counted in dropped. */
void td_metrics_parse(struct td_metrics *m, const char *text, size_t n);
void td_metrics_release(struct td_metrics *m);
/* {"changed": {key: [before, after]}, "constant": n, "dropped": n}: what moved between two snapshots; a sample that was not there
 * before counts from 0. The caller deletes it. Sorts both. */
cJSON *td_metrics_change(struct td_metrics *before, struct td_metrics *after);

#endif
