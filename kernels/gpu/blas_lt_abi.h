/* blas_lt_abi.h - what Tapedeck knows of cuBLASLt, declared here so that it builds without it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: cublasLt.h of CUDA 13.0 (tests/e2e/050-cuda-abi compares). A status is an int; a handle, a descriptor and a stream are void *. Attributes are
 * read in exactly the bytes that they have: 4, 8 where it says so. */
#ifndef TD_KERNELS_GPU_BLAS_LT_ABI_H
#define TD_KERNELS_GPU_BLAS_LT_ABI_H

#include <stddef.h>

/* cudaDataType, cublasComputeType_t, cublasOperation_t, cublasFillMode_t */
enum { TD_CUBLASLT_F32 = 0, TD_CUBLASLT_F16 = 2, TD_CUBLASLT_BF16 = 14, TD_CUBLASLT_COMPUTE_32F = 68, TD_CUBLASLT_OP_N = 0, TD_CUBLASLT_OP_T = 1, TD_CUBLASLT_FULL = 2 };
/* cublasLtPointerMode_t, cublasLtOrder_t, cublasLtBatchMode_t, cublasLtEpilogue_t */
enum { TD_CUBLASLT_HOST = 0, TD_CUBLASLT_COL = 0, TD_CUBLASLT_STRIDED = 0, TD_CUBLASLT_DEFAULT = 1, TD_CUBLASLT_BIAS = 4 };

enum td_cublaslt_desc {               /* cublasLtMatmulDescAttributes_t */
    TD_CUBLASLT_DESC_COMPUTE_TYPE = 0, TD_CUBLASLT_DESC_SCALE_TYPE = 1, TD_CUBLASLT_DESC_POINTER_MODE = 2, TD_CUBLASLT_DESC_TRANSA = 3, TD_CUBLASLT_DESC_TRANSB = 4,
    TD_CUBLASLT_DESC_TRANSC = 5, TD_CUBLASLT_DESC_FILL_MODE = 6, TD_CUBLASLT_DESC_EPILOGUE = 7,
    TD_CUBLASLT_DESC_BIAS_POINTER = 8,                                                 /* 8 bytes, as those to the D_SCALE_POINTER */
    TD_CUBLASLT_DESC_A_SCALE_POINTER = 17, TD_CUBLASLT_DESC_B_SCALE_POINTER = 18, TD_CUBLASLT_DESC_C_SCALE_POINTER = 19, TD_CUBLASLT_DESC_D_SCALE_POINTER = 20,
    TD_CUBLASLT_DESC_BIAS_DATA_TYPE = 26                                               /* -1: that of D */
};
enum td_cublaslt_layout {             /* cublasLtMatrixLayoutAttribute_t */
    TD_CUBLASLT_LAYOUT_TYPE = 0, TD_CUBLASLT_LAYOUT_ORDER = 1,
    TD_CUBLASLT_LAYOUT_ROWS = 2, TD_CUBLASLT_LAYOUT_COLS = 3, TD_CUBLASLT_LAYOUT_LD = 4, /* 8 bytes */
    TD_CUBLASLT_LAYOUT_BATCH_COUNT = 5,
    TD_CUBLASLT_LAYOUT_BATCH_MODE = 8                                                  /* not in older libraries */
};

/* D = alpha A B + beta C, in columns */
#define TD_CUBLASLT_MATMUL_ARGS (void *handle, const void *desc, const void *alpha, const void *a, const void *a_layout, const void *b, const void *b_layout, const void *beta, \
                                 const void *c, const void *c_layout, void *d, const void *d_layout, const void *algorithm, void *workspace, size_t workspace_bytes, void *stream)
#define TD_CUBLASLT_GET_ARGS (const void *of, int attribute, void *to, size_t bytes, size_t *written)

#define TD_CUBLASLT_FUNCTIONS(X) \
    X(cublasLtMatmul, matmul, TD_CUBLASLT_MATMUL_ARGS) \
    X(cublasLtMatmulDescGetAttribute, get_desc, TD_CUBLASLT_GET_ARGS) \
    X(cublasLtMatrixLayoutGetAttribute, get_layout, TD_CUBLASLT_GET_ARGS)

#endif
