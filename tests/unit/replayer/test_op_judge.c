/* test_op_judge.c - whether references are kept does not depend on a GPU that is not there.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "replayer/op_judge.h"
#include "tests/unit/kernels/ops/op_case.h"

static void tell(void *ctx, int n)
{
    (void)ctx;
    (void)n;
}

/* Judge a recorded output, of zeros. */
static void judge(const struct op_case *t, struct td_reference_makers *makers, struct td_ref_cache *cache)
{
    struct td_op_item it = {.loaded = true, .call = t->op, .recorded = t->op.out.data, .limits = {.u_out = 1e-3, .floor = 1e-3}};
    struct td_error err = {0};

    it.hold.n = t->op.n_in;
    for (int i = 0; i < it.hold.n; i++)
        memset(&it.hold.keys[i], i + 1, sizeof it.hold.keys[i]);
    assert_int_equal(td_op_judge_batch(&it, 1, makers, cache, 1, tell, NULL, &err), 0);
    if (!it.judged_recorded)
        fail_msg("%s", it.reason);
    td_op_item_release(&it);
}

static void test_no_gpu_and_a_cache(void **state)
{
    char folder[] = "/tmp/td-judge-XXXXXX", words[600], command[100];
    struct td_reference_makers makers = {.gpu = td_reference_gpu_start("/nowhere")};
    struct td_ref_cache_counts n;
    struct td_ref_cache *cache;
    struct op_case t;

    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_non_null(makers.gpu);
    assert_int_equal(td_reference_gpu_state(makers.gpu, true, words, sizeof words), TD_REFERENCE_NONE);
    cache = td_ref_cache_open(folder, 1 << 20);
    assert_non_null(cache);
    case_gemm(&t, TD_DT_F16, 3, 8, 16, false, 0, true);
    for (int i = 0; i < 2; i++)
        judge(&t, &makers, cache);
    td_ref_cache_counts(cache, &n);
    assert_int_equal(n.computed, 1);
    assert_int_equal(n.found, 1);
    op_case_release(&t);
    td_ref_cache_close(cache);
    td_reference_gpu_stop(makers.gpu);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_gpu_and_a_cache)};

    setenv("TD_CUDA_LIBRARY", "/nowhere/libcuda.so", 1);
    setenv("TD_HIP_LIBRARY", "/nowhere/libamdhip64.so", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
