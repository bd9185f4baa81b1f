/* adapter_td_gptq.c - our own GPU kernels of gptq_gemm.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Parameters: kernels/gptq_gemm/gptq_gemm_cu.h. */
#include "kernels/adapters/adapter_read.h"

/* As td_gpu_read_gptq, with rows of a and c lda and ldc apart, g_idx or perm, and zero_offset as a
 * number. c is the last operand. */
static bool read_td_gptq(const struct td_gpu_adapter *adapter, const struct td_gpu_values *v, struct td_gpu_work *w)
{
    int64_t lda = (int64_t)td_gpu_value(adapter, v, "lda"), ldc = (int64_t)td_gpu_value(adapter, v, "ldc");
    uint64_t zero_offset = td_gpu_value(adapter, v, "zero_offset");

    if (!td_gpu_read_gptq(adapter, v, w) || lda < w->k || ldc < w->n || lda > TD_GPU_MAX_SIZE ||
        ldc > TD_GPU_MAX_SIZE || zero_offset > 1)
        return false;
    w->zero_offset = (int)zero_offset;
    w->op[0].row_stride = lda;
    w->op[w->n_op - 1].row_stride = ldc;
    return true;
}

#define TD_GPTQ(order)                                                                             \
    {"a", 8, TD_GPU_IN}, {"qweight", 8, TD_GPU_WEIGHT}, {"qzeros", 8, TD_GPU_WEIGHT},              \
        {"scales", 8, TD_GPU_WEIGHT}, {order, 8, TD_GPU_WEIGHT}, {"c", 8, TD_GPU_OUT},             \
        {"m", 4, TD_GPU_SCALAR}, {"n", 4, TD_GPU_SCALAR}, {"k", 4, TD_GPU_SCALAR},                 \
        {"groups", 4, TD_GPU_SCALAR}, {"zero_offset", 4, TD_GPU_SCALAR},                           \
        {"lda", 8, TD_GPU_SCALAR},                                                                 \
    {                                                                                              \
        "ldc", 8, TD_GPU_SCALAR                                                                    \
    }
static const struct td_gpu_field td_gptq[] = {TD_GPTQ("g_idx")};
static const struct td_gpu_field td_gptq_exllama[] = {TD_GPTQ("perm")};
#define TD_GPTQ_ENTRIES(bits, accumulator)                                                         \
    {"td_gptq",   "td_gptq_gemm_" #bits "bit_" accumulator,                                        \
     "gptq_gemm", "checkpoint",                                                                    \
     td_gptq,     TD_GPU_COUNT(td_gptq),                                                           \
     bits,        NULL,                                                                            \
     0,           read_td_gptq},                                                                   \
    {                                                                                              \
        "td_gptq", "td_gptq_gemm_exllama_" #bits "bit_" accumulator, "gptq_gemm", "exllama",       \
            td_gptq_exllama, TD_GPU_COUNT(td_gptq_exllama), bits, NULL, 0, read_td_gptq            \
    }

static const struct td_gpu_adapter entries[] = {
    TD_GPTQ_ENTRIES(4, "f32"), TD_GPTQ_ENTRIES(8, "f32"), TD_GPTQ_ENTRIES(4, "f16"), TD_GPTQ_ENTRIES(8, "f16"),
};

const struct td_gpu_adapters td_gpu_adapters_td_gptq = {entries, TD_GPU_COUNT(entries)};
