/* server_metrics.c - counters and histograms, written as Prometheus text.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Names, labels and bucket limits: vllm/v1/metrics/loggers.py. */
#include "demo/server/server_metrics.h"

#include <stdio.h>
#include <string.h>

struct histogram_spec { const char *name, *help; int n; double limit_s[TD_METRIC_BUCKETS]; };

static const struct histogram_spec spec[TD_TIME_COUNT] = {
    {"time_to_first_token_seconds", "Histogram of time to first token in seconds.", 20,
     {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160}},
    {"inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", 17,
     {.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20}},
    {"e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", 20,
     {.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920}},
};

const char *td_finish_name(enum td_finish f)
{
    static const char *const name[TD_FINISH_COUNT] = {NULL, "stop", "length", "abort", "error"};

    return f < TD_FINISH_COUNT ? name[f] : NULL;
}

void td_server_metrics_init(struct td_server_metrics *m)
{
    memset(m, 0, sizeof *m);
    pthread_mutex_init(&m->lock, NULL);
}

void td_server_metrics_release(struct td_server_metrics *m)
{
    pthread_mutex_destroy(&m->lock);
}

void td_server_metrics_set_queue(struct td_server_metrics *m, int running, int waiting)
{
    pthread_mutex_lock(&m->lock);
    m->running = running;
    m->waiting = waiting;
    pthread_mutex_unlock(&m->lock);
}

void td_server_metrics_add_tokens(struct td_server_metrics *m, int prompt, int generated)
{
    pthread_mutex_lock(&m->lock);
    m->prompt_tokens += (uint64_t)prompt;
    m->generation_tokens += (uint64_t)generated;
    pthread_mutex_unlock(&m->lock);
}

void td_server_metrics_add_finished(struct td_server_metrics *m, enum td_finish f)
{
    pthread_mutex_lock(&m->lock);
    m->finished[f]++;
    pthread_mutex_unlock(&m->lock);
}

void td_server_metrics_add_time(struct td_server_metrics *m, enum td_metric_time which, int64_t ns)
{
    struct td_histogram *h = &m->time[which];
    double s = (double)ns / 1e9;
    int i = 0;

    while (i < spec[which].n && s > spec[which].limit_s[i])
        i++;
    pthread_mutex_lock(&m->lock);
    h->bucket[i]++;
    h->count++;
    h->sum_s += s;
    pthread_mutex_unlock(&m->lock);
}

/* A label value: backslash, quote and line feed are escaped. */
static void add_label(struct td_buf *out, const char *s)
{
    for (; *s; s++)
        if (*s == '\n')
            td_buf_adds(out, "\\n");
        else
            td_buf_addf(out, "%s%c", *s == '"' || *s == '\\' ? "\\" : "", *s);
}

static void add_sample(struct td_buf *out, const char *name, const char *label, const char *value, const char *model, double v)
{
    td_buf_addf(out, "vllm:%s{engine=\"0\"", name);
    if (label)
        td_buf_addf(out, ",%s=\"%s\"", label, value);
    td_buf_adds(out, ",model_name=\"");
    add_label(out, model);
    td_buf_addf(out, "\"} %.17g\n", v);
}

static void add_head(struct td_buf *out, const char *name, const char *help, const char *type)
{
    td_buf_addf(out, "# HELP vllm:%s %s\n# TYPE vllm:%s %s\n", name, help, name, type);
}

static void add_histogram(struct td_buf *out, const struct histogram_spec *s, const struct td_histogram *h, const char *model)
{
    char name[64], limit[32];
    uint64_t sum = 0;

    add_head(out, s->name, s->help, "histogram");
    for (int i = 0; i <= s->n; i++) {
        sum += h->bucket[i];
        snprintf(name, sizeof name, "%s_bucket", s->name);
        if (i < s->n)
            snprintf(limit, sizeof limit, "%g", s->limit_s[i]);
        add_sample(out, name, "le", i < s->n ? limit : "+Inf", model, (double)sum);
    }
    snprintf(name, sizeof name, "%s_count", s->name);
    add_sample(out, name, NULL, NULL, model, (double)h->count);
    snprintf(name, sizeof name, "%s_sum", s->name);
    add_sample(out, name, NULL, NULL, model, h->sum_s);
}

void td_server_metrics_render(struct td_server_metrics *m, const char *model, struct td_buf *out)
{
    pthread_mutex_lock(&m->lock);
    add_head(out, "num_requests_running", "Number of requests in model execution batches.", "gauge");
    add_sample(out, "num_requests_running", NULL, NULL, model, m->running);
    add_head(out, "num_requests_waiting", "Number of requests waiting to be processed.", "gauge");
    add_sample(out, "num_requests_waiting", NULL, NULL, model, m->waiting);
    add_head(out, "prompt_tokens_total", "Number of prefill tokens processed.", "counter");
    add_sample(out, "prompt_tokens_total", NULL, NULL, model, (double)m->prompt_tokens);
    add_head(out, "generation_tokens_total", "Number of generation tokens processed.", "counter");
    add_sample(out, "generation_tokens_total", NULL, NULL, model, (double)m->generation_tokens);
    add_head(out, "request_success_total", "Count of successfully processed requests.", "counter");
    for (int f = TD_FINISH_STOP; f < TD_FINISH_COUNT; f++)
        add_sample(out, "request_success_total", "finished_reason",
                   td_finish_name((enum td_finish)f), model, (double)m->finished[f]);
    for (int i = 0; i < TD_TIME_COUNT; i++)
        add_histogram(out, &spec[i], &m->time[i], model);
    pthread_mutex_unlock(&m->lock);
}
