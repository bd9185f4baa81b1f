/* test_zero_rounding.c - weights whose zero points were scaled before: against numpy's numbers.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/ops/gptq_any_ref.h"
#include "model/dtype.h"
#include "tests/unit/data/zero_expected.h"

#define K 16

/* A weight whose row q is the number q in every column. */
static void make(struct td_gptq_op *x, enum td_gptq_rounding how, const uint16_t *scales,
                 uint32_t qweight[2 * ZERO_N], uint32_t qzeros[ZERO_N / 8])
{
    int i;

    memset(qzeros, 0, ZERO_N / 8 * sizeof *qzeros);
    for (i = 0; i < ZERO_N; i++) {
        qweight[i] = 0x76543210;
        qweight[ZERO_N + i] = 0xfedcba98;
        qzeros[i / 8] |= (uint32_t)zero_points[i] << i % 8 * 4;
    }
    *x = (struct td_gptq_op){.n = ZERO_N, .k = K, .groups = 1, .bits = 4, .group_size = K};
    x->rounding = how;
    x->dtype = x->scales_dtype = how == TD_GPTQ_ZERO_F16 ? TD_DT_F16 : TD_DT_BF16;
    x->scales = scales;
    x->qweight = qweight;
    x->qzeros = qzeros;
}

/* Returns how many weights differ from those that were rounded once, from (q - zero) * scale. */
static int check(enum td_gptq_rounding how, const uint16_t *scales, const uint16_t *want)
{
    uint32_t qweight[2 * ZERO_N], qzeros[ZERO_N / 8];
    struct td_gptq_op x;
    double exact[16 * K], rounded[16 * K], once[16 * K];
    int apart = 0;

    make(&x, how, scales, qweight, qzeros);
    for (int n0 = 0; n0 < ZERO_N; n0 += 12) {
        struct td_gptq_op plain = x;

        plain.rounding = how == TD_GPTQ_ZERO_F16 ? TD_GPTQ_WEIGHT_F16 : TD_GPTQ_WEIGHT_BF16;
        td_gptq_op_columns(&x, n0, 12, exact, rounded);
        td_gptq_op_columns(&plain, n0, 12, exact, once);
        for (int i = 0; i < 12; i++)
            for (int k = 0; k < K; k++) {
                const double s = td_dtype_get(x.scales_dtype, scales, (size_t)(n0 + i)),
                             w = td_dtype_get(x.dtype, want, (size_t)(k * ZERO_N + n0 + i));

                assert_true(exact[i * K + k] == (k - zero_points[n0 + i]) * s);
                assert_true(rounded[i * K + k] == w);
                apart += rounded[i * K + k] != once[i * K + k];
            }
    }
    return apart;
}

static void weights_are_numpy_s(void **state)
{
    (void)state;
    assert_true(check(TD_GPTQ_ZERO_F16, zero_scales_f16, zero_weights_f16) > 20);
    assert_true(check(TD_GPTQ_ZERO_BF16, zero_scales_bf16, zero_weights_bf16) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(weights_are_numpy_s)};

    return cmocka_run_group_tests_name("zero_rounding", tests, NULL, NULL);
}
