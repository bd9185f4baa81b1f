/* vllm_pack.h - pack GPTQ weights as vLLM's CPU build does, for tests (model/vllm_layout.h says how they lie).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_UNIT_MODEL_VLLM_PACK_H
#define TD_TESTS_UNIT_MODEL_VLLM_PACK_H

#include <stdint.h>
#include <string.h>

#include "model/dtype.h"

struct pack_in {
    int64_t n, k, groups;
    unsigned (*q)(const void *ctx, int64_t k, int64_t n);
    int (*zero)(const void *ctx, int64_t g, int64_t n);
    uint16_t (*scale)(const void *ctx, int64_t g, int64_t n); /* bf16 */
    const void *ctx;
};

/* w [n/32, k/bk, 16 bk + 128], zeros and scales [n/32, groups, 32]: walked in the order in which the bytes lie. */
static inline void pack_int4(const struct pack_in *in, int64_t bk, uint8_t *w, int8_t *zeros, float *scales)
{
    int64_t block, k0, k, g, i;

    for (block = 0; block < in->n / 32; block++) {
        for (k0 = 0; k0 < in->k; k0 += bk) {
            for (k = 0; k < bk; k += 4)
                for (i = 0; i < 64; i++) {
                    int64_t low = block * 32 + i / 32 * 16 + i % 32 / 4, at = k0 + k + i % 4;

                    *w++ = (uint8_t)(in->q(in->ctx, at, low) | in->q(in->ctx, at, low + 8) << 4);
                }
            for (i = 0; i < 32; i++, w += 4) {
                int32_t sum = 0;

                for (k = k0; k < k0 + bk; k++)
                    sum += (int32_t)in->q(in->ctx, k, block * 32 + i) - in->zero(in->ctx, k / (in->k / in->groups), block * 32 + i);
                memcpy(w, &sum, 4);
            }
        }
        for (g = 0; g < in->groups; g++)
            for (i = 0; i < 32; i++) {
                *zeros++ = (int8_t)in->zero(in->ctx, g, block * 32 + i);
                *scales++ = td_bf16_to_f32(in->scale(in->ctx, g, block * 32 + i));
            }
    }
}

/* w [n/16, 2 k] */
static inline void pack_wna16(const struct pack_in *in, uint32_t *w)
{
    int64_t block, k, half, i;

    for (block = 0; block < in->n / 16; block++)
        for (k = 0; k < in->k; k++)
            for (half = 0; half < 2; half++, w++)
                for (*w = 0, i = 0; i < 8; i++)
                    *w |= (uint32_t)in->q(in->ctx, k, block * 16 + half * 8 + i) << 4 * i;
}

#endif
