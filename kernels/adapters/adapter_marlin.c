/* adapter_marlin.c - vLLM's Marlin kernels for GPTQ and AWQ weights.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: csrc/quantization/marlin/kernel.h of vLLM 0.26 (MARLIN_KERNEL_PARAMS). Weights have layout
 * "marlin" (model/marlin_layout.h). c_tmp holds min(m rounded up to 16, 64) * 256 floats for each
 * multiprocessor, locks an int for each (vLLM has four). With act-order vLLM sorts A's columns in an
 * earlier launch of permute_cols_kernel; A is what this kernel gets. Where there is more than one
 * group, each weight (q - zero) * scale is rounded to 16 bits before the product (marlin_template.h,
 * scale). A bias is added to the product after that was rounded (write_result). A later signature, without groups and g_idx, is not known. */
#include "kernels/adapters/adapter_read.h"
#include "kernels/gpucode/mangled.h"

/* a [m, k], rows lda apart, qweight [k / 16, n * bits / 2], scales [groups, n], bias [n], qzeros
 * [groups, n * bits / 32], g_idx [k], c [m, n] */
static bool read_marlin(const struct td_gpu_adapter *adapter, const struct td_gpu_values *v,
                        const char *dtype, struct td_gpu_work *w)
{
    int64_t groups = (int32_t)td_gpu_value(adapter, v, "groups"), lda = (int32_t)td_gpu_value(adapter, v, "lda");

    w->m = (int32_t)td_gpu_value(adapter, v, "m");
    w->n = (int32_t)td_gpu_value(adapter, v, "n");
    w->k = (int32_t)td_gpu_value(adapter, v, "k");
    w->bits = adapter->bits;
    if (!td_gpu_is_size(w->n) || !td_gpu_is_size(w->k) || !td_gpu_is_size(groups) ||
        !td_gpu_is_size(lda) || w->k % groups || w->k % 16 || w->n % 64 || lda < w->k)
        return false;
    w->group_size = (int)(w->k / groups);
    w->act_order = td_gpu_field_at(adapter, "g_idx") >= 0;
    if (groups > 1) /* else sums are scaled */
        w->rounding = dtype[0] == 'B' ? "weight-bf16" : "weight-f16";
    td_gpu_work_add(w, v, "a", dtype, 2, w->m, w->k);
    w->op[0].row_stride = lda;
    td_gpu_work_add(w, v, "qweight", "I32", 4, w->k / 16, w->n * w->bits / 2);
    td_gpu_work_add(w, v, "scales", dtype, 2, groups, w->n);
    td_gpu_work_add(w, v, "qzeros", "I32", 4, groups, w->n * w->bits / 32);
    td_gpu_work_add(w, v, "g_idx", "I32", 4, 0, w->k);
    if (td_gpu_value(adapter, v, "has_bias")) {
        td_gpu_work_add(w, v, "bias", dtype, 2, 0, w->n);
        w->rounding = td_gpu_rounding_bias_after(w->rounding);
    }
    td_gpu_work_add(w, v, "c", dtype, 2, w->m, w->n);
    return true;
}

static bool read_marlin_f16(const struct td_gpu_adapter *adapter, const struct td_gpu_values *v, struct td_gpu_work *w)
{
    return read_marlin(adapter, v, "F16", w);
}

static bool read_marlin_bf16(const struct td_gpu_adapter *adapter, const struct td_gpu_values *v, struct td_gpu_work *w)
{
    return read_marlin(adapter, v, "BF16", w);
}

#define UNUSED {"unused", 8, TD_GPU_SCALAR}
#define MARLIN(zp, g_idx)                                                                          \
    {"a", 8, TD_GPU_IN}, {"qweight", 8, TD_GPU_WEIGHT}, {"c", 8, TD_GPU_OUT},                      \
        {"c_tmp", 8, TD_GPU_SCRATCH}, {"bias", 8, TD_GPU_WEIGHT}, UNUSED,                          \
        {"scales", 8, TD_GPU_WEIGHT}, UNUSED, zp, g_idx, {"groups", 4, TD_GPU_SCALAR},             \
        {"m", 4, TD_GPU_SCALAR}, {"n", 4, TD_GPU_SCALAR}, {"k", 4, TD_GPU_SCALAR},                 \
        {"lda", 4, TD_GPU_SCALAR}, {"locks", 8, TD_GPU_ZEROED}, {"has_bias", 1, TD_GPU_SCALAR},    \
        {"use_atomic_add", 1, TD_GPU_SCALAR}, {"use_fp32_reduce", 1, TD_GPU_SCALAR},               \
    {                                                                                              \
        "max_shared_mem", 4, TD_GPU_SCALAR                                                         \
    }
#define ZEROS {"qzeros", 8, TD_GPU_WEIGHT}
#define G_IDX {"g_idx", 8, TD_GPU_WEIGHT}
static const struct td_gpu_field marlin[] = {MARLIN(UNUSED, UNUSED)},
                                 marlin_g_idx[] = {MARLIN(UNUSED, G_IDX)},
                                 marlin_zeros[] = {MARLIN(ZEROS, UNUSED)};

/* Template arguments of Marlin: types of A, B, C and the scales, threads, blocks of m, n and k,
 * m_block_size_8, stages, group_blocks, is_zp_float. group_blocks is 0 where rows of a group do not
 * lie together, and only then g_idx is read. */
#define MARLIN_TYPES(a, b) {0, a}, {1, b}, {2, a}, {3, a}, {11, 0}, {12, TD_GPU_NO_ARGUMENT}
static const struct td_gpu_argument f16_u4b8[] = {MARLIN_TYPES(TD_GPU_VLLM_F16, TD_GPU_VLLM_U4B8),
                                                  {10, 0}},
                                    bf16_u4b8[] = {MARLIN_TYPES(TD_GPU_VLLM_BF16, TD_GPU_VLLM_U4B8),
                                                   {10, 0}};
static const struct td_gpu_argument
    f16_u8b128[] = {MARLIN_TYPES(TD_GPU_VLLM_F16, TD_GPU_VLLM_U8B128), {10, 0}},
    bf16_u8b128[] = {MARLIN_TYPES(TD_GPU_VLLM_BF16, TD_GPU_VLLM_U8B128), {10, 0}};
static const struct td_gpu_argument f16_u4[] = {MARLIN_TYPES(TD_GPU_VLLM_F16, TD_GPU_VLLM_U4)},
                                    bf16_u4[] = {MARLIN_TYPES(TD_GPU_VLLM_BF16, TD_GPU_VLLM_U4)};

/* The entry for weights whose rows lie in any order comes before the one for rows in the order of
 * groups, because it asks for more. */
#define MARLIN_ENTRY(family, fields, bits, types, n, read)                                         \
    {                                                                                              \
        family, "Marlin", "gptq_gemm", "marlin", fields, TD_GPU_COUNT(fields), bits, types, n,     \
            read                                                                                   \
    }
#define MARLIN_ENTRIES(name, bits, types, read)                                                    \
    MARLIN_ENTRY("marlin_" name "_g_idx", marlin_g_idx, bits, types, 7, read),                     \
        MARLIN_ENTRY("marlin_" name, marlin, bits, types, 6, read)

static const struct td_gpu_adapter entries[] = {
    MARLIN_ENTRIES("u4b8_f16", 4, f16_u4b8, read_marlin_f16),
    MARLIN_ENTRIES("u4b8_bf16", 4, bf16_u4b8, read_marlin_bf16),
    MARLIN_ENTRIES("u8b128_f16", 8, f16_u8b128, read_marlin_f16),
    MARLIN_ENTRIES("u8b128_bf16", 8, bf16_u8b128, read_marlin_bf16),
    MARLIN_ENTRY("marlin_u4_f16", marlin_zeros, 4, f16_u4, TD_GPU_COUNT(f16_u4), read_marlin_f16),
    MARLIN_ENTRY("marlin_u4_bf16", marlin_zeros, 4, bf16_u4, TD_GPU_COUNT(bf16_u4), read_marlin_bf16),
};

const struct td_gpu_adapters td_gpu_adapters_marlin = {entries, TD_GPU_COUNT(entries)};
