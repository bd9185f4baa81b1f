/* test_allspark_layout.c - the layout of vLLM's allspark_w8a16_gemm.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/allspark_layout.h"

enum { K = 48, N = 80, PADDED = 96 };

static uint32_t words[K / 4 * N], back[K / 4 * N];
static uint16_t scales[N], scales_back[N], runtime_scales[PADDED];
static unsigned char runtime[PADDED * K];

static unsigned char weight(int k, int n)
{
    return n < N ? (unsigned char)(words[k / 4 * N + n] >> k % 4 * 8) : 0;
}

static void draw(void)
{
    unsigned seed = 3;
    int i;

    for (i = 0; i < K / 4 * N; i++)
        words[i] = (seed = seed * 1664525u + 1013904223u);
    for (i = 0; i < N; i++)
        scales[i] = (uint16_t)(i + 1);
}

/* The layout as one permutation of axes: k is (tile, half, pair, low) of (K/16, 2, 4, 2), n is (block, half, quarter, low) of (PADDED/32, 2, 2, 8);
 * it lies as (n block, n low, k tile, k pair, n half, n quarter, k half, k low). */
static void bytes_are_a_permutation_of_axes(void **state)
{
    const unsigned char *at = runtime;

    (void)state;
    assert_int_equal(td_allspark_padded(N), PADDED);
    memset(runtime, 0xff, sizeof runtime);
    assert_int_equal(td_allspark_repack(K, N, words, scales, runtime, runtime_scales, NULL), 0);
    for (int block = 0; block < PADDED / 32; block++)
        for (int n_low = 0; n_low < 8; n_low++)
            for (int tile = 0; tile < K / 16; tile++)
                for (int pair = 0; pair < 4; pair++)
                    for (int n_half = 0; n_half < 2; n_half++)
                        for (int quarter = 0; quarter < 2; quarter++)
                            for (int half = 0; half < 2; half++)
                                for (int low = 0; low < 2; low++)
                                    assert_int_equal(*at++, weight(tile * 16 + half * 8 + pair * 2 + low, block * 32 + n_half * 16 + quarter * 8 + n_low));
    for (int block = 0, i = 0; block < PADDED / 32; block++)
        for (int low = 0; low < 8; low++)
            for (int eighth = 0; eighth < 4; eighth++, i++) {
                const int n = block * 32 + eighth * 8 + low;

                assert_int_equal(runtime_scales[i], n < N ? n + 1 : 0);
            }
}

static void there_and_back(void **state)
{
    (void)state;
    assert_int_equal(td_allspark_repack(K, N, words, scales, runtime, runtime_scales, NULL), 0);
    memset(back, 0xff, sizeof back);
    assert_int_equal(td_allspark_unrepack(K, N, runtime, runtime_scales, back, scales_back, NULL), 0);
    assert_memory_equal(back, words, sizeof words);
    assert_memory_equal(scales_back, scales, sizeof scales);
}

static void other_sizes_are_refused(void **state)
{
    struct td_error err = {0};

    (void)state;
    assert_int_equal(td_allspark_repack(K + 4, N, words, scales, runtime, runtime_scales, &err), TD_EINVAL);
    assert_string_equal(err.msg, "AllSpark has no weights of 52 x 80");
    assert_int_equal(td_allspark_unrepack(K, N - 4, runtime, runtime_scales, back, scales_back, NULL), TD_EINVAL);
    assert_int_equal(td_allspark_unrepack(0, N, runtime, runtime_scales, back, scales_back, NULL), TD_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_a_permutation_of_axes),
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(other_sizes_are_refused),
    };

    draw();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
