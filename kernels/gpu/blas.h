/* blas.h - the GPU's library of matrix products, cuBLAS or hipBLAS, asked as vLLM and torch ask it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Which library is opened: the one that TD_CUBLAS_LIBRARY (TD_HIPBLAS_LIBRARY) names; else one that
 * lies beside the build as pip lays it out, SITE/nvidia/cu13/lib or SITE/nvidia/cublas/lib (or
 * SITE/torch/lib) for a build in SITE/vllm; else the one that the loader finds. Of several versions
 * first the one of the CUDA runtime that the build was linked with, then the newest. It is opened by
 * dlopen, so that Tapedeck builds without CUDA and ROCm.
 *
 * The handle is set up as torch sets up the one that vLLM uses (ATen/cuda/CublasHandlePool.cpp, torch
 * 2.11): default math mode, host pointers, and on NVIDIA a workspace of torch's size for that GPU.
 * Another version of the library, CUBLAS_WORKSPACE_CONFIG in the server, or torch's allow_tf32 may have
 * chosen another kernel there, whose bits differ. */
#ifndef TD_KERNELS_GPU_BLAS_H
#define TD_KERNELS_GPU_BLAS_H

#include "kernels/gpu/driver.h"
#include "kernels/gpu/linear.h"
#include "kernels/gpucode/image.h"

struct td_gpu_blas;

/* driver and device are borrowed and must outlive *out; img is borrowed for the call. TD_ENOTFOUND: no
 * library can be loaded; the sentence says what to do. */
int td_gpu_blas_open(const struct td_gpu_driver *driver, void *device,
                     const struct td_gpu_facts *facts, const struct td_gpu_image *img,
                     struct td_gpu_blas **out, struct td_error *err);
void td_gpu_blas_close(struct td_gpu_blas *b);
const char *td_gpu_blas_words(const struct td_gpu_blas *b); /* "cuBLAS 13.1.0" */

/* Make the handle, unless it is there. TD_EUNSUPPORTED: the library or the machine cannot; no fault of the build. */
int td_gpu_blas_start(struct td_gpu_blas *b, struct td_error *err);

/* After start, in the device's stream: C = A W, all float16, dense, row-major: a : [m, k], w : [k, n],
 * c : [m, n]; sizes below 2^31. As vLLM asks for it (q_gemm.cu, gemm_half_q_half_cuda):
 * Hgemm(N, N, n, m, k, 1, w, n, a, k, 0, c, n), which may add in float16. */
int td_gpu_blas_product(struct td_gpu_blas *b, int64_t m, int64_t n, int64_t k, uint64_t a,
                        uint64_t w, uint64_t c, struct td_error *err);

/* After start, in the device's stream, of cuBLAS alone: the linear layer *x, as torch asks for it
 * (ATen/cuda/CUDABlas.cpp). Without a bias gemm_internal_cublas: GemmEx(T, N, n, m, k, 1, w, k, a,
 * lda, 0, c, ldc); parts of a product that is split over K may be kept in 16 bits, which the math mode
 * allows. With a bias gemm_and_bias: cublasLt (blas_lt.h). */
int td_gpu_blas_linear(struct td_gpu_blas *b, const struct td_gpu_linear *x, struct td_error *err);
/* NULL: the library can compute products with a bias. Else why not: cublasLt is not there. */
const char *td_gpu_blas_no_bias(struct td_gpu_blas *b);

#endif
