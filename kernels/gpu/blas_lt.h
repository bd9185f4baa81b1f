/* blas_lt.h - a product with a bias, as torch asks cublasLt for it; for blas.c alone.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: torch 2.11, ATen/cuda/CUDABlas.cpp, gemm_and_bias: D = W A^T in columns, with the bias in the
 * epilogue, added in float32, by the first algorithm that the library's heuristic offers for these
 * sizes, this workspace and the alignment of these addresses. A cuBLAS handle serves as a handle of
 * cublasLt (cublasLt.h). */
#ifndef TD_KERNELS_GPU_BLAS_LT_H
#define TD_KERNELS_GPU_BLAS_LT_H

#include <stddef.h>

#include "common/error.h"
#include "kernels/gpu/linear.h"

struct td_gpu_blas_lt;

/* library : a handle of libcublas, which was linked with cublasLt. TD_ENOTFOUND: a function is not
 * there; err names it. */
int td_gpu_blas_lt_open(void *library, struct td_gpu_blas_lt **out, struct td_error *err);
void td_gpu_blas_lt_close(struct td_gpu_blas_lt *l);

struct td_gpu_blas_lt_place { void *handle, *stream, *workspace; size_t workspace_bytes; };

/* Enqueue the product. 0, or the status of the function that failed, whose name is then in *who. The
 * heuristic's choice is used again as long as x does not change. */
int td_gpu_blas_lt_linear(struct td_gpu_blas_lt *l, const struct td_gpu_blas_lt_place *at,
                          const struct td_gpu_linear *x, const char **who);

#endif
