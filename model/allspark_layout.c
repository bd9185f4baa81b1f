/* allspark_layout.c - the layout in which vLLM's allspark_w8a16_gemm reads GPTQ weights, made and undone.
 * SPDX-License-Identifier: Apache-2.0 */
#include "model/allspark_layout.h"

#include <string.h>

static int check_sizes(int64_t k, int64_t n, struct td_error *err)
{
    return k > 0 && n > 0 && k % 16 == 0 && n % 16 == 0
               ? 0
               : td_fail(err, TD_EINVAL, "AllSpark has no weights of %lld x %lld", (long long)k, (long long)n);
}

int64_t td_allspark_padded(int64_t n)
{
    return (n + 31) / 32 * 32;
}

/* The place of weight (i, j) of k rows. */
static int64_t weight_at(int64_t k, int64_t i, int64_t j)
{
    const int64_t row = j / 32 * 8 + j % 8, pair = i % 8 / 2 * 2 + j % 32 / 16,
                  byte = i % 2 + i % 16 / 8 * 2 + j % 16 / 8 * 4;

    return row * 4 * k + i / 16 * 64 + pair * 8 + byte;
}

static int64_t scale_at(int64_t j)
{
    return j / 32 * 32 + j % 8 * 4 + j % 32 / 8;
}

int td_allspark_repack(int64_t k, int64_t n, const uint32_t *checkpoint, const uint16_t *scales,
                       unsigned char *runtime, uint16_t *runtime_scales, struct td_error *err)
{
    const int64_t padded = td_allspark_padded(n);
    int rc = check_sizes(k, n, err);

    if (rc)
        return rc;
    memset(runtime, 0, (size_t)(padded * k));
    memset(runtime_scales, 0, (size_t)padded * sizeof *runtime_scales);
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < n; j++)
            runtime[weight_at(k, i, j)] = (unsigned char)(checkpoint[i / 4 * n + j] >> i % 4 * 8);
    for (int64_t j = 0; j < n; j++)
        runtime_scales[scale_at(j)] = scales[j];
    return 0;
}

int td_allspark_unrepack(int64_t k, int64_t n, const unsigned char *runtime,
                         const uint16_t *runtime_scales, uint32_t *checkpoint, uint16_t *scales,
                         struct td_error *err)
{
    int rc = check_sizes(k, n, err);

    if (rc)
        return rc;
    memset(checkpoint, 0, (size_t)(k / 4 * n) * sizeof *checkpoint);
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < n; j++)
            checkpoint[i / 4 * n + j] |= (uint32_t)runtime[weight_at(k, i, j)] << i % 4 * 8;
    for (int64_t j = 0; j < n; j++)
        scales[j] = runtime_scales[scale_at(j)];
    return 0;
}
