/* nothing.h - what libnothing.so exports (nothing.c). SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_BENCH_TAP_NOTHING_H
#define TD_BENCH_TAP_NOTHING_H

#include "kernels/abi/td_gptq.h"

#define at_linear _ZN2at4_ops6linear4callERKNS_6TensorES4_RKSt8optionalIS2_E

int ggml_backend_sched_graph_compute_async(void *sched, void *graph);
void *at_linear(void *ret, const void *x, const void *w, const void *bias);
int32_t aoti_torch_get_dim(const void *t, int64_t *out);
int32_t aoti_torch_get_sizes(const void *t, const int64_t **out);
int32_t aoti_torch_get_strides(const void *t, const int64_t **out);
int32_t aoti_torch_get_dtype(const void *t, int32_t *out);
int32_t aoti_torch_get_device_type(const void *t, int32_t *out);
int32_t torch_get_const_data_ptr(const void *t, const void **out);

/* cuda_runtime_api.h, cublas_api.h */
int cudaGraphLaunch(void *exec, void *stream);
int cublasGemmEx(void *handle, int trans_a, int trans_b, int m, int n, int k, const void *alpha, const void *a, int a_type, int lda,
                 const void *b, int b_type, int ldb, const void *beta, void *c, int c_type, int ldc, int compute, int algorithm);

#endif
