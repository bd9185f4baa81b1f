/* test_marlin_layout.c - what vLLM's own code packs for Marlin comes out the same here, and comes back.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "marlin_pack_data.h"
#include "model/marlin_layout.h"

/* ---- as vLLM packed it --------------------------------------------------------------------------------------------- */

static const struct golden { int bits; int64_t n; const uint32_t *checkpoint, *plain, *act_order; size_t bytes; const uint32_t *zeros, *runtime_zeros; size_t zeros_bytes; } golden[] = {
    {4, MAR_N, mar_checkpoint_4bit, mar_plain_4bit, mar_act_order_4bit, sizeof mar_plain_4bit, mar_checkpoint_zeros_4bit, mar_zeros_4bit, sizeof mar_zeros_4bit},
    {8, MAR_N8, mar_checkpoint_8bit, mar_plain_8bit, mar_act_order_8bit, sizeof mar_plain_8bit, mar_checkpoint_zeros_8bit, mar_zeros_8bit, sizeof mar_zeros_8bit},
};
#define GOLDEN (sizeof golden / sizeof *golden)

static void weights_both_ways(void **state)
{
    uint32_t out[sizeof mar_plain_8bit / 4];
    size_t i;

    (void)state;
    for (i = 0; i < GOLDEN; i++) {
        const struct golden *g = &golden[i];

        assert_true(g->bytes <= sizeof out);
        assert_int_equal(td_marlin_repack(g->bits, MAR_K, g->n, g->checkpoint, NULL, out, NULL), 0);
        assert_memory_equal(out, g->plain, g->bytes);
        assert_int_equal(td_marlin_repack(g->bits, MAR_K, g->n, g->checkpoint, mar_perm, out, NULL), 0);
        assert_memory_equal(out, g->act_order, g->bytes);
        assert_int_equal(td_marlin_unrepack(g->bits, MAR_K, g->n, g->plain, NULL, out, NULL), 0);
        assert_memory_equal(out, g->checkpoint, g->bytes);
        assert_int_equal(td_marlin_unrepack(g->bits, MAR_K, g->n, g->act_order, mar_perm, out, NULL), 0);
        assert_memory_equal(out, g->checkpoint, g->bytes);
    }
}

static void scales_both_ways(void **state)
{
    uint16_t out[MAR_GROUPS * MAR_N];

    (void)state;
    assert_int_equal(td_marlin_permute_scales(MAR_GROUPS, MAR_N, mar_checkpoint_scales, out, NULL), 0);
    assert_memory_equal(out, mar_scales, sizeof mar_scales);
    assert_int_equal(td_marlin_unpermute_scales(MAR_GROUPS, MAR_N, mar_scales, out, NULL), 0);
    assert_memory_equal(out, mar_checkpoint_scales, sizeof mar_scales);
    assert_int_equal(td_marlin_permute_scales(1, MAR_N, mar_checkpoint_scales_one, out, NULL), 0);
    assert_memory_equal(out, mar_scales_one, sizeof mar_scales_one);
    assert_memory_equal(out, mar_bias_one, sizeof mar_bias_one);
    assert_int_equal(td_marlin_unpermute_scales(1, MAR_N, mar_scales_one, out, NULL), 0);
    assert_memory_equal(out, mar_checkpoint_scales_one, sizeof mar_scales_one);
}

static void zeros_both_ways(void **state)
{
    uint32_t out[sizeof mar_zeros_8bit / 4];
    size_t i;

    (void)state;
    for (i = 0; i < GOLDEN; i++) {
        const struct golden *g = &golden[i];

        assert_true(g->zeros_bytes <= sizeof out);
        assert_int_equal(td_marlin_pack_zeros(g->bits, MAR_GROUPS, g->n, g->zeros, 0, out, NULL), 0);
        assert_memory_equal(out, g->runtime_zeros, g->zeros_bytes);
        assert_int_equal(td_marlin_unpack_zeros(g->bits, MAR_GROUPS, g->n, g->runtime_zeros, out, NULL), 0);
        assert_memory_equal(out, g->zeros, g->zeros_bytes);
    }
}

/* Stored less one, as format "gptq" does: 7 is 8; a stored 15 is a 16, which has no place. */
static void zeros_with_an_offset(void **state)
{
    uint32_t stored[8], out[8], eights[8];
    struct td_error err = {0};

    (void)state;
    memset(stored, 0x77, sizeof stored);
    memset(eights, 0x88, sizeof eights);
    assert_int_equal(td_marlin_pack_zeros(4, 1, 64, stored, 1, out, NULL), 0);
    assert_memory_equal(out, eights, sizeof out);
    stored[7] |= 0xf0000000;
    assert_int_equal(td_marlin_pack_zeros(4, 1, 64, stored, 1, out, &err), TD_EUNSUPPORTED);
    assert_string_equal(err.msg, "a zero point of 16; Marlin's of 4 bits are at most 15");
}

static void symmetric_zeros(void **state)
{
    uint32_t zeros[16];

    (void)state;
    memset(zeros, 0x88, sizeof zeros);
    assert_true(td_marlin_zeros_are_symmetric(4, 2, 64, zeros, 0));
    assert_false(td_marlin_zeros_are_symmetric(4, 2, 64, zeros, 1));
    memset(zeros, 0x77, sizeof zeros);
    assert_true(td_marlin_zeros_are_symmetric(4, 2, 64, zeros, 1));
    zeros[15] ^= 1u << 31;
    assert_false(td_marlin_zeros_are_symmetric(4, 2, 64, zeros, 1));
    assert_true(td_marlin_zeros_are_symmetric(4, 1, 64, zeros, 1));
    memset(zeros, 0x7f, sizeof zeros);
    assert_true(td_marlin_zeros_are_symmetric(8, 1, 64, zeros, 1));
    memset(zeros, 0x80, sizeof zeros);
    assert_true(td_marlin_zeros_are_symmetric(8, 1, 64, zeros, 0));
    assert_false(td_marlin_zeros_are_symmetric(8, 1, 64, zeros, 1));
}

/* ---- any sizes ----------------------------------------------------------------------------------------------------- */

static uint32_t next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed ^ *seed >> 13;
}

static void fill(uint32_t *words, size_t n, uint32_t *seed)
{
    while (n--)
        *words++ = next(seed);
}

static void weights_round_trip(int bits, int64_t k, int64_t n, uint32_t seed)
{
    size_t words = (size_t)(k * bits / 32 * n);
    uint32_t *q = malloc(words * 4), *there = malloc(words * 4), *back = malloc(words * 4);
    int32_t *perm = malloc((size_t)k * 4), i;

    assert_true(q && there && back && perm);
    fill(q, words, &seed);
    for (i = 0; i < k; i++) {
        int32_t j = (int32_t)(next(&seed) % (uint32_t)(i + 1));

        perm[i] = perm[j];
        perm[j] = i;
    }
    assert_int_equal(td_marlin_repack(bits, k, n, q, perm, there, NULL), 0);
    assert_int_equal(td_marlin_unrepack(bits, k, n, there, perm, back, NULL), 0);
    assert_memory_equal(back, q, words * 4);
    free(q), free(there), free(back), free(perm);
}

static void round_trips(void **state)
{
    static const int64_t k[] = {16, 48, 80, 352}, n[] = {64, 192, 320}, groups[] = {1, 2, 3, 11};
    uint16_t scales[11 * 320 * 2], there[11 * 320 * 2], back[11 * 320 * 2];
    uint32_t seed = 3;
    size_t i, j;

    (void)state;
    fill((uint32_t *)(void *)scales, sizeof scales / 4, &seed);
    for (i = 0; i < 4; i++)
        for (j = 0; j < 3; j++) {
            weights_round_trip(4, k[i], n[j], seed++);
            weights_round_trip(8, k[i], n[j], seed++);
            assert_int_equal(td_marlin_permute_scales(groups[i], n[j], scales, there, NULL), 0);
            assert_int_equal(td_marlin_unpermute_scales(groups[i], n[j], there, back, NULL), 0);
            assert_memory_equal(back, scales, (size_t)(groups[i] * n[j] * 2));
        }
}

static void refusals(void **state)
{
    static uint32_t in[512], out[512];
    static uint16_t scales[128], to[128];
    int32_t perm[16] = {0};

    (void)state;
    assert_int_equal(td_marlin_repack(3, 16, 64, in, NULL, out, NULL), TD_EUNSUPPORTED);
    assert_int_equal(td_marlin_unrepack(2, 16, 64, in, NULL, out, NULL), TD_EUNSUPPORTED);
    assert_int_equal(td_marlin_pack_zeros(16, 1, 64, in, 0, out, NULL), TD_EUNSUPPORTED);
    assert_int_equal(td_marlin_unpack_zeros(0, 1, 64, in, out, NULL), TD_EUNSUPPORTED);
    assert_int_equal(td_marlin_repack(4, 24, 64, in, NULL, out, NULL), TD_EINVAL);
    assert_int_equal(td_marlin_repack(4, 16, 96, in, NULL, out, NULL), TD_EINVAL);
    assert_int_equal(td_marlin_repack(4, 0, 64, in, NULL, out, NULL), TD_EINVAL);
    assert_int_equal(td_marlin_repack(4, 16, 64, in, perm, out, NULL), TD_EINVAL);
    assert_int_equal(td_marlin_permute_scales(2, 32, scales, to, NULL), TD_EINVAL);
    assert_int_equal(td_marlin_permute_scales(1, 32, scales, to, NULL), 0);
    assert_int_equal(td_marlin_unpermute_scales(0, 64, scales, to, NULL), TD_EINVAL);
    assert_int_equal(td_marlin_unpack_zeros(4, 1, 32, in, out, NULL), TD_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_both_ways),    cmocka_unit_test(scales_both_ways), cmocka_unit_test(zeros_both_ways),
        cmocka_unit_test(zeros_with_an_offset), cmocka_unit_test(round_trips),      cmocka_unit_test(refusals),
        cmocka_unit_test(symmetric_zeros),
    };

    return cmocka_run_group_tests_name("marlin_layout", tests, NULL, NULL);
}
