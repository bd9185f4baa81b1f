/* test_metrics.c - Prometheus' text format: which lines are samples, what changed between two snapshots.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The lines are as vLLM 0.32 and llama.cpp b11434 wrote them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/metrics.h"

static const char VLLM[] =
    "# HELP vllm:num_requests_running Number of requests in model execution batches.\n"
    "# TYPE vllm:num_requests_running gauge\n"
    "vllm:num_requests_running{engine=\"0\",model_name=\"smollm2\"} 0.0\n"
    "python_gc_objects_collected_total{generation=\"0\"} 9913.0\n"
    "vllm:prompt_tokens_total{engine=\"0\",model_name=\"a \\\"b\\\" c\"} 74.0\n"
    "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"+Inf\",model_name=\"smollm2\"} 3.0 1395066363000\n"
    "vllm:odd NaN\n"
    "llamacpp:n_busy_slots_per_decode 1.07801\r\n"
    "vllm:\n"
    "vllm:no_number{x=\"y\"} \n"
    "vllm:open{x=\"y 7\n"
    "llamacpp:last 2";

static const struct td_metric *get(const struct td_metrics *m, const char *key)
{
    size_t i;

    for (i = 0; i < m->n; i++)
        if (!strcmp(m->v[i].key, key))
            return &m->v[i];
    return NULL;
}

static void samples_are_read(void **state)
{
    struct td_metrics m = TD_METRICS_INIT;

    (void)state;
    td_metrics_parse(&m, VLLM, sizeof VLLM - 1);
    assert_int_equal(m.n, 6);
    assert_int_equal(m.dropped, 0);
    assert_true(get(&m, "vllm:prompt_tokens_total{engine=\"0\",model_name=\"a \\\"b\\\" c\"}")->value == 74);
    assert_true(get(&m, "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"+Inf\",model_name=\"smollm2\"}")->value == 3);
    assert_true(isnan(get(&m, "vllm:odd")->value));
    assert_true(get(&m, "llamacpp:last")->value == 2);
    td_metrics_release(&m);
}

static void what_moved_is_kept(void **state)
{
    static const char before[] = "vllm:a 1\nvllm:b 5\nvllm:n NaN\n", after[] = "vllm:b 5\nvllm:a 4.5\nvllm:new +Inf\nvllm:n NaN\n";
    struct td_metrics b = TD_METRICS_INIT, a = TD_METRICS_INIT;
    cJSON *c, *changed, *want;

    (void)state;
    td_metrics_parse(&b, before, sizeof before - 1);
    td_metrics_parse(&a, after, sizeof after - 1);
    c = td_metrics_change(&b, &a);
    changed = cJSON_GetObjectItem(c, "changed");
    want = cJSON_Parse("{\"vllm:a\":[1,4.5],\"vllm:new\":[0,\"Infinity\"]}");
    assert_true(cJSON_Compare(changed, want, true));
    assert_int_equal(cJSON_GetObjectItem(c, "constant")->valueint, 2);
    cJSON_Delete(want);
    cJSON_Delete(c);
    td_metrics_release(&a);
    td_metrics_release(&b);
}

static void maxima_hold(void **state)
{
    struct td_metrics m = TD_METRICS_INIT;
    char line[700];
    int i;

    (void)state;
    for (i = 0; i < TD_METRICS_MAX + 3; i++)
        td_metrics_parse(&m, line, (size_t)snprintf(line, sizeof line, "vllm:m%d 1", i));
    assert_int_equal(m.n, TD_METRICS_MAX);
    assert_int_equal(m.dropped, 3);
    td_metrics_release(&m);
    td_metrics_parse(&m, line, (size_t)snprintf(line, sizeof line, "vllm:%0600d 1", 7));
    assert_int_equal(m.n, 0);
    assert_int_equal(m.dropped, 1);
    td_metrics_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(samples_are_read), cmocka_unit_test(what_moved_is_kept), cmocka_unit_test(maxima_hold)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
