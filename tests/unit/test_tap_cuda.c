/* test_tap_cuda.c - launches of vLLM's gptq kernels on a fake driver with a fake CUPTI, through the tap into a fixture.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>

#include <cmocka.h>

#include "common/json.h"
#include "fake_gpu.h"
#include "tap_bench.h"
#include "recorder/tap/tap_cuda.h"

static char folder[] = "/tmp/td-gpu-XXXXXX";
int InitializeInjection(void);

static int setup(void **state)
{
    (void)state;
    setenv("TD_TAP_DIR", "/nonexistent", 1);
    if (!mkdtemp(folder) || !gpu_open(folder))
        return -1;
    return InitializeInjection() != 1;
}

static int teardown(void **state)
{
    (void)state;
    return td_fs_remove_tree(folder, NULL);
}

static void arm(struct bench *b, uint32_t mode)
{
    bench_open(b, mode);
    assert_null(tap_front_cuda.start());
    assert_true(cupti_subscribed());
}

static void disarm(struct bench *b)
{
    tap_front_cuda.stop(2000);
    assert_false(cupti_subscribed());
    bench_read(b);
}

static int64_t attr(const struct td_op *op, const char *name)
{
    return td_json_get_i64(op->attrs, name, -99);
}

static int64_t sum(const struct bench *b)
{
    static const char *const why[] = {"sampling", "budget", "ring", "threads", "weights", "partial", "failed", "recorder", "unreadable", "graph"};
    int64_t n = ledger(b, "ops.kept");
    size_t i;

    for (i = 0; i < sizeof why / sizeof *why; i++) {
        char name[64];

        snprintf(name, sizeof name, "ops.dropped.%s", why[i]);
        n += ledger(b, name);
    }
    return n;
}

static void a_launch_becomes_an_op(void **state)
{
    struct bench b;
    size_t i;

    (void)state;
    gpu_pass(1, 0);                    /* asleep: nobody looks */
    arm(&b, TAP_MODE_ALL);
    gpu_pass(1, 1);
    gpu_pass(1, 2);
    disarm(&b);
    assert_int_equal(b.n_ops, 2 * LAYERS);
    assert_int_equal(b.n_steps, 2);
    assert_int_equal(ledger(&b, "ops.seen"), 2 * LAYERS);
    assert_int_equal(ledger(&b, "launches.known"), 2 * LAYERS);
    assert_int_equal(ledger(&b, "launches.seen"), 2 * (LAYERS + 20 + 3 * LAYERS));
    assert_int_equal(ledger(&b, "weights.seen"), LAYERS);
    for (i = 0; i < b.n_ops; i++) {
        const struct td_op *op = &b.ops[i];
        const struct gpu_layer *w = &layer[i % LAYERS];
        const cJSON *launch = cJSON_GetArrayItem(op->impl.launches, 0);

        assert_string_equal(op->kind, "gptq_gemm");
        assert_string_equal(op->impl.symbol, FAKE_GPTQ_4BIT(1));
        assert_string_equal(op->impl.layout, "exllama");
        assert_int_equal(attr(op, "m"), 1);
        assert_int_equal(attr(op, "n"), w->n);
        assert_int_equal(attr(op, "k"), K);
        assert_int_equal(attr(op, "bits"), 4);
        assert_int_equal(attr(op, "group_size"), GROUP);
        assert_int_equal(attr(op, "zero_offset"), 1);
        assert_int_equal(op->step, b.steps[i / LAYERS].step);
        assert_int_equal(cJSON_GetArraySize(op->impl.launches), 1);
        assert_int_equal(cJSON_GetArrayItem(cJSON_GetObjectItem(launch, "block"), 0)->valueint, 128);
        check_blob(&b, td_op_rec_in(op, "qweight"), (void *)w->qweight, (size_t)(K / 8 * w->n) * 4);
        check_blob(&b, td_op_rec_in(op, "qzeros"), (void *)w->qzeros, (size_t)(K / GROUP * w->n / 8) * 4);
        check_blob(&b, td_op_rec_in(op, "scales"), (void *)w->scales, (size_t)(K / GROUP * w->n) * 2);
    }
    check_blob(&b, td_op_rec_in(&b.ops[5], "a"), (void *)dev_a, K * 2);
    check_blob(&b, &b.ops[5].out, (void *)dev_c, (size_t)layer[2].n * 2);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_launch_becomes_an_op),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
