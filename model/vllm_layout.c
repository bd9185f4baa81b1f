/* vllm_layout.c - unpack the layouts of vLLM's CPU build for 4-bit weights into GPTQ's.
 * SPDX-License-Identifier: Apache-2.0 */
#include "model/vllm_layout.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int begin_unpack(struct td_gptq_unpacked *w, int64_t n, int64_t k, int64_t groups, int64_t block_n, struct td_error *err)
{
    memset(w, 0, sizeof *w);
    if (n % block_n)
        return td_fail(err, TD_EINVAL,
                       "vLLM's packed weights have blocks of %lld outputs, %lld are none",
                       (long long)block_n, (long long)n);
    return td_gptq_unpacked_init(w, 4, n, k, groups, err);
}

static void store_q(struct td_gptq_unpacked *w, int64_t k, int64_t n, unsigned q)
{
    w->qweight[k / 8 * w->n + n] |= (uint32_t)q << k % 8 * 4;
}

/* ---- zero points and scales ------------------------------------------------------------------ */

typedef int zero_fn(const void *zeros, const struct td_gptq_unpacked *w, int64_t g, int64_t n);

static int store_zeros(struct td_gptq_unpacked *w, zero_fn *zero_of, const void *zeros, struct td_error *err)
{
    int64_t g, n;

    w->zero_offset = 1;
    for (g = 0; g < w->groups; g++)
        for (n = 0; n < w->n; n++) {
            int zero = zero_of(zeros, w, g, n);

            if (zero < 0 || zero > 15)
                return td_fail(err, TD_ECORRUPT, "zero point %d of output %lld; 4-bit weights have 0 to 15", zero, (long long)n);
            w->zero_offset &= zero != 0;
        }
    for (g = 0; g < w->groups; g++)
        for (n = 0; n < w->n; n++)
            w->qzeros[g * (w->n / 8) + n / 8] |= (uint32_t)(zero_of(zeros, w, g, n) - w->zero_offset) << n % 8 * 4;
    return TD_OK;
}

/* Store every scale exactly: as BF16 if that is possible, else as F16. */
static int store_scales(struct td_gptq_unpacked *w, const float *blocked, struct td_error *err)
{
    int64_t all = w->groups * w->n, i;
    bool bf16 = true, f16 = true;

    for (i = 0; i < all; i++) {
        uint32_t bits;

        memcpy(&bits, &blocked[i], 4);
        bf16 &= !(bits & 0xffff);
        f16 &= td_f16_to_f32(td_f32_to_f16(blocked[i])) == blocked[i];
    }
    if (!bf16 && !f16)
        return td_fail(err, TD_EUNSUPPORTED, "scales that are neither BF16 nor F16");
    w->scale_dtype = bf16 ? TD_DT_BF16 : TD_DT_F16;
    for (i = 0; i < all; i++) {
        int64_t block = i / (w->groups * TD_VLLM_INT4_BLOCK_N),
                g = i / TD_VLLM_INT4_BLOCK_N % w->groups,
                n = block * TD_VLLM_INT4_BLOCK_N + i % TD_VLLM_INT4_BLOCK_N;

        w->scales[g * w->n + n] = bf16 ? td_f32_to_bf16(blocked[i]) : td_f32_to_f16(blocked[i]);
    }
    return TD_OK;
}

/* ---- W4A8 ------------------------------------------------------------------------------------ */

static int int4_zero(const void *zeros, const struct td_gptq_unpacked *w, int64_t g, int64_t n)
{
    return ((const int8_t *)zeros)[(n / TD_VLLM_INT4_BLOCK_N * w->groups + g) * TD_VLLM_INT4_BLOCK_N + n % TD_VLLM_INT4_BLOCK_N];
}

/* Output 16 h + 8 * high + i of a block is nibble `high` of byte 16 k + 32 h + 4 i + r. */
static unsigned int4_q(const uint8_t *block, int64_t k, int64_t n)
{
    uint8_t byte = block[k / 4 * 4 * 16 + n / 16 * 32 + n % 8 * 4 + k % 4];

    return n % 16 < 8 ? byte & 15 : byte >> 4;
}

/* Unpack one block. False: its stored sums do not match, so it is packed in another way. */
static bool unpack_block(struct td_gptq_unpacked *w, const uint8_t *block, const int8_t *zeros,
                         int64_t n0, int64_t k0, int64_t bk)
{
    int64_t n, k, group_size = w->k / w->groups;

    for (n = 0; n < TD_VLLM_INT4_BLOCK_N; n++) {
        int32_t sum = 0, kept;

        for (k = 0; k < bk; k++) {
            unsigned q = int4_q(block, k, n);

            store_q(w, k0 + k, n0 + n, q);
            sum += (int32_t)q - int4_zero(zeros, w, (k0 + k) / group_size, n0 + n);
        }
        memcpy(&kept, block + bk * TD_VLLM_INT4_BLOCK_N / 2 + n * 4, 4);
        if (kept != sum)
            return false;
    }
    return true;
}

static int unpack_blocks(struct td_gptq_unpacked *w, const uint8_t *block, const int8_t *zeros, int64_t bk, struct td_error *err)
{
    int64_t n0, k0;

    for (n0 = 0; n0 < w->n; n0 += TD_VLLM_INT4_BLOCK_N)
        for (k0 = 0; k0 < w->k; k0 += bk, block += bk * TD_VLLM_INT4_BLOCK_N / 2 + TD_VLLM_INT4_BLOCK_N * 4)
            if (!unpack_block(w, block, zeros, n0, k0, bk))
                return td_fail(err, TD_ECORRUPT,
                               "the sums beside the weights at input %lld, output %lld are not "
                               "theirs; is it another layout?",
                               (long long)k0, (long long)n0);
    return TD_OK;
}

int td_vllm_int4_unpack(const uint8_t *w, const int8_t *zeros, const float *scales, int64_t n,
                        int64_t k, int64_t groups, int64_t bk, struct td_gptq_unpacked *out,
                        struct td_error *err)
{
    int rc = begin_unpack(out, n, k, groups, TD_VLLM_INT4_BLOCK_N, err);

    if (!rc && (bk <= 0 || bk % 4 || k % bk))
        rc = td_fail(err, TD_EINVAL, "blocks of %lld inputs do not divide %lld", (long long)bk, (long long)k);
    if (!rc)
        rc = store_zeros(out, int4_zero, zeros, err);
    if (!rc)
        rc = unpack_blocks(out, w, zeros, bk, err);
    if (!rc)
        rc = store_scales(out, scales, err);
    if (rc)
        td_gptq_unpacked_release(out);
    return rc;
}

/* ---- W4A16 ----------------------------------------------------------------------------------- */

static int wna16_zero(const void *zeros, const struct td_gptq_unpacked *w, int64_t g, int64_t n)
{
    return zeros ? (int)(((const uint32_t *)zeros)[g * (w->n / 8) + n / 8] >> n % 8 * 4 & 15) : 8;
}

int td_vllm_wna16_unpack(const uint32_t *w, const uint32_t *zeros, const uint16_t *scales,
                         enum td_dtype scale_dtype, int64_t n, int64_t k, int64_t groups,
                         struct td_gptq_unpacked *out, struct td_error *err)
{
    int rc = begin_unpack(out, n, k, groups, TD_VLLM_WNA16_BLOCK_N, err);
    int64_t i, j;

    if (!rc)
        rc = store_zeros(out, wna16_zero, zeros, err);
    if (rc) {
        td_gptq_unpacked_release(out);
        return rc;
    }
    out->scale_dtype = scale_dtype;
    memcpy(out->scales, scales, (size_t)(groups * n) * 2);
    for (j = 0; j < n; j++)
        for (i = 0; i < k; i++)
            store_q(out, i, j, w[j / 16 * 2 * k + 2 * i + j % 16 / 8] >> j % 8 * 4 & 15);
    return TD_OK;
}
