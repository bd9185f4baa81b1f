/* server_metrics.h - the few of vLLM's Prometheus metrics that a recorder reads, with vLLM's names.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DEMO_SERVER_SERVER_METRICS_H
#define TD_DEMO_SERVER_SERVER_METRICS_H

#include <pthread.h>
#include <stdint.h>

#include "common/buf.h"

enum td_finish { TD_FINISH_NONE, TD_FINISH_STOP, TD_FINISH_LENGTH, TD_FINISH_ABORT, TD_FINISH_ERROR, TD_FINISH_COUNT };
const char *td_finish_name(enum td_finish f); /* "stop" ...; NULL for TD_FINISH_NONE */

enum td_metric_time { TD_TIME_TTFT, TD_TIME_ITL, TD_TIME_E2E, TD_TIME_COUNT };
#define TD_METRIC_BUCKETS 20

struct td_histogram { uint64_t bucket[TD_METRIC_BUCKETS + 1], count; double sum_s; };

/* Shared by the engine and the HTTP threads; every function locks. */
struct td_server_metrics {
    pthread_mutex_t lock;
    int running, waiting;
    uint64_t prompt_tokens, generation_tokens, finished[TD_FINISH_COUNT];
    struct td_histogram time[TD_TIME_COUNT];
};

void td_server_metrics_init(struct td_server_metrics *m);
void td_server_metrics_release(struct td_server_metrics *m);
void td_server_metrics_set_queue(struct td_server_metrics *m, int running, int waiting);
void td_server_metrics_add_tokens(struct td_server_metrics *m, int prompt, int generated);
void td_server_metrics_add_finished(struct td_server_metrics *m, enum td_finish f);
void td_server_metrics_add_time(struct td_server_metrics *m, enum td_metric_time which, int64_t ns);
/* Append all of it in Prometheus' text format. */
void td_server_metrics_render(struct td_server_metrics *m, const char *model_name, struct td_buf *out);

#endif
