/* td_gptq.h - the public binary interface of libtdkernels.so: one quantised matrix product and one empty marker.
 * SPDX-License-Identifier: Apache-2.0
 *
 * This header is the contract between three parties that never link each other statically:
 *   - the server that calls the functions (demo/server),
 *   - the library that implements them (libtdkernels.so; another build of it *is* a new build),
 *   - the tap, which sits between the two (recorder/tap) and sees every argument.
 * It is plain C with fixed-size integers and needs nothing else of Tapedeck. */
#ifndef TD_KERNELS_ABI_TD_GPTQ_H
#define TD_KERNELS_ABI_TD_GPTQ_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* C = A * dequant(W), the linear layer of a GPTQ model. All arrays are borrowed for the call.
 *
 * Checkpoint layout (AutoGPTQ, as vLLM reads it):
 *   q[k][n]  sits in bits  bits*(k % (32/bits))  of  qweight[k / (32/bits)][n]
 *   z[g][n]  sits in bits  bits*(n % (32/bits))  of  qzeros[g][n / (32/bits)]
 *   w[k][n] = (q[k][n] - (z[g][n] + zero_offset)) * scales[g][n],   g = g_idx ? g_idx[k] : k / group_size
 *
 * Constraints: bits 4 or 8; group_size a multiple of 8 that divides k, or k (a group size of -1 in a config
 * is passed as k); k % (32/bits) == 0; n % (32/bits) == 0; 0 <= g_idx[k] < k / group_size.
 * NaN or Inf in a row of A gives NaN or Inf in that row of C and in no other row.
 * C is written in full (never accumulated into); A and C must not overlap. */
struct td_gptq_gemm_args {
    uint32_t struct_size;    /* sizeof(struct td_gptq_gemm_args) of the caller; later fields come at the end */
    int32_t m, n, k;         /* rows of A, columns of W, inner dimension; m >= 0, n > 0, k > 0 */
    int32_t bits;            /* 4 or 8 */
    int32_t group_size;      /* rows of W that share a scale */
    int32_t zero_offset;     /* 1: format "gptq" (v1, stores z - 1); 0: "gptq_v2" */
    int32_t flags;           /* 0 */
    const uint16_t *a;       /* [m, k] f16, row-major, lda >= k elements */
    int64_t lda;
    const uint32_t *qweight; /* [k*bits/32, n] */
    const uint32_t *qzeros;  /* [k/group_size, n*bits/32] */
    const uint16_t *scales;  /* [k/group_size, n] f16 */
    const int32_t *g_idx;    /* [k], or NULL: rows are in group order (no act-order) */
    uint16_t *c;             /* [m, n] f16, row-major, ldc >= n elements; rounded to nearest even */
    int64_t ldc;
};

enum td_kernel_status {
    TD_KERNEL_OK = 0,
    TD_KERNEL_EINVAL = -1,       /* a pointer is NULL, a size is negative, struct_size too small */
    TD_KERNEL_EUNSUPPORTED = -2, /* bits, group_size or a divisibility rule */
    TD_KERNEL_ENOMEM = -3
};

/* Returns enum td_kernel_status. Safe to call from several threads at once. */
int td_gptq_gemm(const struct td_gptq_gemm_args *args);

/* One sentence about the build ("tdkernels 0.1 avx2"), static storage. Informational: it never decides a verdict. */
const char *td_kernels_build(void);

/* How this build keeps its sums: 0, in float32; else in halves, into which it adds so many products at a time (the
 * products of such a block are summed in float32, then rounded to half). May be missing: 0. A declaration that nobody
 * checks: errors of the size that sums in halves have then pass (docs/verdicts.md). Fewer than 32 are not taken. */
int td_kernels_half_sums(void);

/* The row map of the step (one forward pass over a batch of rows) that starts now: which request owns which
 * rows of every A until the next call. td_step does nothing; it exists so that a tap can link calls to
 * requests. One call per step, from the thread that then calls td_gptq_gemm. Rows of `spans` are in order
 * and cover [0, n_rows). */
struct td_step_span {
    uint64_t request;    /* the server's number of the request, unique within the process */
    const char *id;      /* the id that went to the client ("cmpl-..."), NUL-terminated, borrowed */
    int32_t first_row;   /* first row of A */
    int32_t n_rows;
    int32_t position;    /* position of first_row's token in its sequence (0 = first prompt token) */
    int32_t decode;      /* 1: one generated token; 0: a piece of the prompt */
};
struct td_step_args {
    uint32_t struct_size;
    int32_t n_spans;
    uint64_t step;       /* counts from 0, one up per step */
    const struct td_step_span *spans;
};
void td_step(const struct td_step_args *args);

#ifdef __cplusplus
}
#endif
#endif
