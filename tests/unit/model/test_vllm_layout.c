/* test_vllm_layout.c - what vLLM's own code packed comes back as it was; what it cannot have packed is refused.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/vllm_layout.h"
#include "vllm_pack.h"
#include "vllm_pack_data.h"

enum { BK = PACK_K / PACK_GROUPS };

static unsigned q_of(const void *ctx, int64_t k, int64_t n)
{
    (void)ctx;
    return pack_qweight[k / 8 * PACK_N + n] >> k % 8 * 4 & 15;
}

static int zero_of(const void *ctx, int64_t g, int64_t n)
{
    (void)ctx;
    return pack_zeros[g * PACK_N + n];
}

static uint16_t scale_of(const void *ctx, int64_t g, int64_t n)
{
    (void)ctx;
    return pack_scales[g * PACK_N + n];
}

static const struct pack_in layer = {PACK_N, PACK_K, PACK_GROUPS, q_of, zero_of, scale_of, NULL};

static void expect_layer(const struct td_gptq_unpacked *w, const uint8_t *zeros)
{
    int g, n;

    assert_memory_equal(w->qweight, pack_qweight, sizeof pack_qweight);
    assert_memory_equal(w->scales, pack_scales, sizeof pack_scales);
    assert_int_equal(w->scale_dtype, TD_DT_BF16);
    for (g = 0; g < PACK_GROUPS; g++)
        for (n = 0; n < PACK_N; n++)
            assert_int_equal((w->qzeros[g * (PACK_N / 8) + n / 8] >> n % 8 * 4 & 15) + (unsigned)w->zero_offset, zeros ? zeros[g * PACK_N + n] : 8);
}

/* ---- as vLLM packed it --------------------------------------------------------------------------------------------- */

static void wna16_comes_back(void **state)
{
    struct td_error err = {0};
    struct td_gptq_unpacked w;

    (void)state;
    assert_memory_equal(pack_wna16_scales, pack_scales, sizeof pack_scales);
    assert_int_equal(td_vllm_wna16_unpack(pack_wna16_words, pack_wna16_zeros, pack_wna16_scales, TD_DT_BF16, PACK_N, PACK_K, PACK_GROUPS, &w, &err), 0);
    expect_layer(&w, pack_zeros);
    assert_int_equal(w.zero_offset, 1);
    td_gptq_unpacked_release(&w);
    assert_int_equal(td_vllm_wna16_unpack(pack_wna16_words, NULL, pack_wna16_scales, TD_DT_BF16, PACK_N, PACK_K, PACK_GROUPS, &w, &err), 0);
    expect_layer(&w, NULL);
    td_gptq_unpacked_release(&w);
}

static void int4_comes_back(void **state)
{
    struct td_error err = {0};
    struct td_gptq_unpacked w;

    (void)state;
    assert_int_equal(td_vllm_int4_unpack(pack_int4_bytes, pack_int4_zeros, pack_int4_scales, PACK_N, PACK_K, PACK_GROUPS, BK, &w, &err), 0);
    expect_layer(&w, pack_zeros);
    td_gptq_unpacked_release(&w);
}

/* ---- packed here --------------------------------------------------------------------------------------------------- */

struct packed { uint8_t w[PACK_N / 32 * (PACK_K * 16 + PACK_K / 16 * 128)]; int8_t zeros[PACK_N * PACK_GROUPS]; float scales[PACK_N * PACK_GROUPS]; };

static int unpack(const struct packed *p, int64_t bk, struct td_gptq_unpacked *w)
{
    struct td_error err = {0};
    int rc = td_vllm_int4_unpack(p->w, p->zeros, p->scales, PACK_N, PACK_K, PACK_GROUPS, bk, w, &err);

    assert_true(!rc || err.msg[0]);
    return rc;
}

static void int4_of_any_block(void **state)
{
    static const int64_t blocks[] = {16, 32, BK};
    struct td_gptq_unpacked w;
    struct packed p;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        pack_int4(&layer, blocks[i], p.w, p.zeros, p.scales);
        assert_int_equal(unpack(&p, blocks[i], &w), 0);
        expect_layer(&w, pack_zeros);
        td_gptq_unpacked_release(&w);
    }
}

static void our_packing_is_vllms(void **state)
{
    struct packed p;

    (void)state;
    pack_int4(&layer, BK, p.w, p.zeros, p.scales);
    assert_memory_equal(p.w, pack_int4_bytes, sizeof pack_int4_bytes);
    assert_memory_equal(p.zeros, pack_int4_zeros, sizeof pack_int4_zeros);
    assert_memory_equal(p.scales, pack_int4_scales, sizeof pack_int4_scales);
}

static void another_layout_is_noticed(void **state)
{
    struct td_gptq_unpacked w;
    struct packed p;

    (void)state;
    pack_int4(&layer, BK, p.w, p.zeros, p.scales);
    p.w[5] ^= 1;                       /* the sum of its column does not fit any more */
    assert_int_equal(unpack(&p, BK, &w), TD_ECORRUPT);
    p.w[5] ^= 1;
    p.zeros[40] = 16;
    assert_int_equal(unpack(&p, BK, &w), TD_ECORRUPT);
    p.zeros[40] = -1;
    assert_int_equal(unpack(&p, BK, &w), TD_ECORRUPT);
    pack_int4(&layer, 32, p.w, p.zeros, p.scales);
    assert_int_equal(unpack(&p, BK, &w), TD_ECORRUPT);
    assert_int_equal(unpack(&p, 24, &w), TD_EINVAL);
    assert_int_equal(unpack(&p, 0, &w), TD_EINVAL);
    assert_int_equal(td_vllm_wna16_unpack(pack_wna16_words, NULL, pack_wna16_scales, TD_DT_BF16, 24, PACK_K, PACK_GROUPS, &w, NULL), TD_EINVAL);
    assert_int_equal(td_vllm_wna16_unpack(pack_wna16_words, NULL, pack_wna16_scales, TD_DT_BF16, PACK_N, PACK_K, 3, &w, NULL), TD_EINVAL);
}

static void scales_keep_their_type(void **state)
{
    struct td_gptq_unpacked w;
    struct packed p;
    int i;

    (void)state;
    pack_int4(&layer, BK, p.w, p.zeros, p.scales);
    for (i = 0; i < PACK_N * PACK_GROUPS; i++)
        p.scales[i] = 1.0009765625f;   /* an F16 that BF16 has not */
    assert_int_equal(unpack(&p, BK, &w), 0);
    assert_int_equal(w.scale_dtype, TD_DT_F16);
    assert_int_equal(w.scales[3], 0x3c01);
    td_gptq_unpacked_release(&w);
    p.scales[7] = 1.0001f;
    assert_int_equal(unpack(&p, BK, &w), TD_EUNSUPPORTED);
}

static void zero_points_of_zero(void **state)
{
    struct td_gptq_unpacked w;
    uint32_t zeros[PACK_GROUPS * PACK_N / 8];

    (void)state;
    memcpy(zeros, pack_wna16_zeros, sizeof zeros);
    zeros[1] &= ~15u;
    assert_int_equal(td_vllm_wna16_unpack(pack_wna16_words, zeros, pack_wna16_scales, TD_DT_BF16, PACK_N, PACK_K, PACK_GROUPS, &w, NULL), 0);
    assert_int_equal(w.zero_offset, 0);
    assert_memory_equal(w.qzeros, zeros, sizeof zeros);
    td_gptq_unpacked_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wna16_comes_back),          cmocka_unit_test(int4_comes_back),        cmocka_unit_test(int4_of_any_block),
        cmocka_unit_test(our_packing_is_vllms),
        cmocka_unit_test(another_layout_is_noticed), cmocka_unit_test(scales_keep_their_type), cmocka_unit_test(zero_points_of_zero),
    };

    return cmocka_run_group_tests_name("vllm_layout", tests, NULL, NULL);
}
