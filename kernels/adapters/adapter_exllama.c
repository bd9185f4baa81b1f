/* adapter_exllama.c - vLLM's gptq kernels: exllama's product, and the kernels that reconstruct W.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source of the parameters: vLLM 0.26, csrc/quantization/gptq/q_gemm.cu, and the same file before
 * use_v2_format was added (v1 below); offsets and sizes were seen on an H200. Weights have layout
 * "exllama": qweight [k * bits / 32, n] i32 shuffled inside its words (model/exllama_layout.h), qzeros
 * [groups, n * bits / 32] i32 and scales [groups, n] f16 as in the checkpoint, perm [k] i32 or none. */
#include "kernels/adapters/adapter_read.h"

#define GPTQ_START                                                                                 \
    {"a", 8, TD_GPU_IN}, {"qweight", 8, TD_GPU_WEIGHT}, {"qzeros", 8, TD_GPU_WEIGHT},              \
        {"scales", 8, TD_GPU_WEIGHT}, {"c", 8, TD_GPU_OUT_ZEROED}, {"m", 4, TD_GPU_SCALAR},        \
        {"n", 4, TD_GPU_SCALAR}, {"k", 4, TD_GPU_SCALAR},                                          \
    {                                                                                              \
        "groups", 4, TD_GPU_SCALAR                                                                 \
    }
static const struct td_gpu_field gptq_v2[] = {GPTQ_START, {"v2", 1, TD_GPU_SCALAR}, {"perm", 8, TD_GPU_WEIGHT}};
static const struct td_gpu_field gptq_v1[] = {GPTQ_START, {"perm", 8, TD_GPU_WEIGHT}};

/* For prompts of more than 50 rows a launch writes the dequantised W in float16, and the next call,
 * cublasHgemm, multiplies. */
#define RECONSTRUCT_START                                                                          \
    {"qweight", 8, TD_GPU_WEIGHT}, {"perm", 8, TD_GPU_WEIGHT}, {"qzeros", 8, TD_GPU_WEIGHT},       \
        {"scales", 8, TD_GPU_WEIGHT}, {"k", 4, TD_GPU_SCALAR}, {"n", 4, TD_GPU_SCALAR},            \
    {                                                                                              \
        "groups", 4, TD_GPU_SCALAR                                                                 \
    }
static const struct td_gpu_field reconstruct_v2[] = {RECONSTRUCT_START, {"v2", 1, TD_GPU_SCALAR}, {"b", 8, TD_GPU_OUT}};
static const struct td_gpu_field reconstruct_v1[] = {RECONSTRUCT_START, {"b", 8, TD_GPU_OUT}};

static const struct td_gpu_adapter entries[] = {
    {"reconstruct_exllama", "reconstruct_exllama_4bit_kernel", "gptq_reconstruct", "exllama",
     reconstruct_v2, TD_GPU_COUNT(reconstruct_v2), 4, NULL, 0, td_gpu_read_gptq},
    {"reconstruct_exllama", "reconstruct_exllama_4bit_kernel", "gptq_reconstruct", "exllama",
     reconstruct_v1, TD_GPU_COUNT(reconstruct_v1), 4, NULL, 0, td_gpu_read_gptq},
    {"reconstruct_exllama_8bit", "reconstruct_exllama_8bit_kernel", "gptq_reconstruct", "exllama",
     reconstruct_v2, TD_GPU_COUNT(reconstruct_v2), 8, NULL, 0, td_gpu_read_gptq},
    {"reconstruct_exllama_8bit", "reconstruct_exllama_8bit_kernel", "gptq_reconstruct", "exllama",
     reconstruct_v1, TD_GPU_COUNT(reconstruct_v1), 8, NULL, 0, td_gpu_read_gptq},
    {"gptq_exllama", "gemm_half_q_half_gptq_4bit_kernel", "gptq_gemm", "exllama", gptq_v2,
     TD_GPU_COUNT(gptq_v2), 4, NULL, 0, td_gpu_read_gptq},
    {"gptq_exllama", "gemm_half_q_half_gptq_4bit_kernel", "gptq_gemm", "exllama", gptq_v1,
     TD_GPU_COUNT(gptq_v1), 4, NULL, 0, td_gpu_read_gptq},
    {"gptq_exllama_8bit", "gemm_half_q_half_gptq_8bit_kernel", "gptq_gemm", "exllama", gptq_v2,
     TD_GPU_COUNT(gptq_v2), 8, NULL, 0, td_gpu_read_gptq},
    {"gptq_exllama_8bit", "gemm_half_q_half_gptq_8bit_kernel", "gptq_gemm", "exllama", gptq_v1,
     TD_GPU_COUNT(gptq_v1), 8, NULL, 0, td_gpu_read_gptq},
};

const struct td_gpu_adapters td_gpu_adapters_exllama = {entries, TD_GPU_COUNT(entries)};
