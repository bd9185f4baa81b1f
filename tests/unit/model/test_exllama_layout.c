/* test_exllama_layout.c - the words that vLLM's exllama kernels read, made from a checkpoint's and undone.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "exllama_pack_data.h"
#include "model/exllama_layout.h"
#include "model/gptq.h"

static const struct { int bits; const uint32_t *checkpoint, *plain, *act_order; size_t bytes; } golden[] = {
    {4, exl_checkpoint_4bit, exl_plain_4bit, exl_act_order_4bit, sizeof exl_checkpoint_4bit},
    {8, exl_checkpoint_8bit, exl_plain_8bit, exl_act_order_8bit, sizeof exl_checkpoint_8bit},
};

static void golden_both_ways(void **state)
{
    uint32_t out[EXL_K / 4 * EXL_N];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof golden / sizeof *golden; i++) {
        assert_int_equal(td_exllama_shuffle(golden[i].bits, EXL_K, EXL_N, golden[i].checkpoint, NULL, out, NULL), 0);
        assert_memory_equal(out, golden[i].plain, golden[i].bytes);
        assert_int_equal(td_exllama_shuffle(golden[i].bits, EXL_K, EXL_N, golden[i].checkpoint, exl_perm, out, NULL), 0);
        assert_memory_equal(out, golden[i].act_order, golden[i].bytes);
        memset(out, 0xa5, sizeof out);
        assert_int_equal(td_exllama_unshuffle(golden[i].bits, EXL_K, EXL_N, golden[i].plain, NULL, out, NULL), 0);
        assert_memory_equal(out, golden[i].checkpoint, golden[i].bytes);
        memset(out, 0xa5, sizeof out);
        assert_int_equal(td_exllama_unshuffle(golden[i].bits, EXL_K, EXL_N, golden[i].act_order, exl_perm, out, NULL), 0);
        assert_memory_equal(out, golden[i].checkpoint, golden[i].bytes);
    }
}

static void perm_and_g_idx(void **state)
{
    const struct td_gptq_weight w = {.bits = 4, .group_size = EXL_GROUP, .k = EXL_K, .n = EXL_N, .groups = EXL_K / EXL_GROUP, .g_idx = exl_g_idx};
    int32_t perm[EXL_K], g_idx[EXL_K];

    (void)state;
    td_gptq_argsort_groups(&w, perm);
    assert_memory_equal(perm, exl_perm, sizeof perm);
    td_gptq_g_idx_of_perm(perm, EXL_K, EXL_GROUP, g_idx);
    assert_memory_equal(g_idx, exl_g_idx, sizeof g_idx);
}

/* ---- any sizes ------------------------------------------------------------------------------------------------------- */

static uint32_t next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed ^ *seed >> 13;
}

static void shuffle_rows(int32_t *perm, int64_t k, uint32_t *seed)
{
    int64_t i;

    for (i = 0; i < k; i++) {
        int64_t j = next(seed) % (uint32_t)(i + 1);

        perm[i] = perm[j];
        perm[j] = (int32_t)i;
    }
}

static void round_trip(int bits, int64_t k, int64_t n, uint32_t seed)
{
    size_t words = (size_t)(k * bits / 32 * n), i;
    uint32_t *q = malloc(words * 4), *there = malloc(words * 4), *back = malloc(words * 4);
    int32_t *perm = malloc((size_t)k * 4);

    assert_true(q && there && back && perm);
    for (i = 0; i < words; i++)
        q[i] = next(&seed);
    for (i = 0; i < (size_t)k; i++) /* no order is that of the rows */
        perm[i] = (int32_t)i;
    assert_int_equal(td_exllama_shuffle(bits, k, n, q, perm, there, NULL), 0);
    assert_int_equal(td_exllama_shuffle(bits, k, n, q, NULL, back, NULL), 0);
    assert_memory_equal(there, back, words * 4);
    shuffle_rows(perm, k, &seed);
    assert_int_equal(td_exllama_shuffle(bits, k, n, q, perm, there, NULL), 0);
    assert_int_equal(td_exllama_unshuffle(bits, k, n, there, perm, back, NULL), 0);
    assert_memory_equal(back, q, words * 4);
    assert_int_equal(td_exllama_shuffle(bits, k, n, q, NULL, there, NULL), 0);
    assert_int_equal(td_exllama_unshuffle(bits, k, n, there, NULL, back, NULL), 0);
    assert_memory_equal(back, q, words * 4);
    free(q), free(there), free(back), free(perm);
}

static void random_round_trips(void **state)
{
    static const int64_t k[] = {8, 32, 96, 480, 2080}, n[] = {1, 8, 56, 129};
    uint32_t seed = 1;
    size_t i, j;

    (void)state;
    for (i = 0; i < sizeof k / sizeof *k; i++)
        for (j = 0; j < sizeof n / sizeof *n; j++) {
            round_trip(4, k[i], n[j], seed++);
            round_trip(8, k[i], n[j], seed++);
        }
}

static void refusals(void **state)
{
    int32_t perm[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    uint32_t in[2] = {0, 0}, out[2];
    struct td_error err = {0};
    int bits;

    (void)state;
    for (bits = 0; bits <= 32; bits++)
        if (bits != 4 && bits != 8) {
            assert_int_equal(td_exllama_shuffle(bits, 8, 1, in, NULL, out, &err), TD_EUNSUPPORTED);
            assert_int_equal(td_exllama_unshuffle(bits, 8, 1, in, NULL, out, &err), TD_EUNSUPPORTED);
        }
    assert_int_equal(td_exllama_shuffle(4, 12, 1, in, NULL, out, NULL), TD_EINVAL);
    assert_int_equal(td_exllama_shuffle(4, 0, 1, in, NULL, out, NULL), TD_EINVAL);
    assert_int_equal(td_exllama_unshuffle(4, 8, -1, in, NULL, out, NULL), TD_EINVAL);
    assert_int_equal(td_exllama_shuffle(4, 8, 1, in, perm, out, NULL), 0);
    perm[3] = 8;
    assert_int_equal(td_exllama_shuffle(4, 8, 1, in, perm, out, NULL), TD_EINVAL);
    perm[3] = -1;
    assert_int_equal(td_exllama_unshuffle(4, 8, 1, in, perm, out, NULL), TD_EINVAL);
    perm[3] = 2;
    td_error_clear(&err);
    assert_int_equal(td_exllama_unshuffle(4, 8, 1, in, perm, out, &err), TD_EINVAL);
    assert_string_equal(err.msg, "perm[3] is 2: it is no permutation of 8 rows");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_both_ways),
        cmocka_unit_test(perm_and_g_idx),
        cmocka_unit_test(random_round_trips),
        cmocka_unit_test(refusals),
    };

    return cmocka_run_group_tests_name("exllama_layout", tests, NULL, NULL);
}
