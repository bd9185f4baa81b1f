/* cublaslt_abi.h - the part of cuBLASLt's binary interface that Tapedeck uses.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Declared here so that Tapedeck builds without it. Source: cublasLt.h of CUDA 13.0
 * (tests/e2e/050-cuda-abi compares). A status is an int; a handle, a descriptor and a stream are void *.
 * Attributes are read in exactly the bytes that they have: 4, or 8 where a comment says so. */
#ifndef TD_KERNELS_ABI_CUBLASLT_ABI_H
#define TD_KERNELS_ABI_CUBLASLT_ABI_H

#include <stddef.h>
#include <stdint.h>

/* cudaDataType, cublasComputeType_t, cublasOperation_t, cublasFillMode_t */
enum {
    TD_CUBLASLT_F32 = 0, TD_CUBLASLT_F16 = 2, TD_CUBLASLT_BF16 = 14,
    TD_CUBLASLT_E4M3 = 28, TD_CUBLASLT_E5M2 = 29,
    TD_CUBLASLT_COMPUTE_32F = 68,
    TD_CUBLASLT_OP_N = 0, TD_CUBLASLT_OP_T = 1,
    TD_CUBLASLT_FULL = 2
};
/* cublasLtPointerMode_t, cublasLtOrder_t, cublasLtBatchMode_t, cublasLtEpilogue_t,
 * cublasLtMatmulMatrixScale_t */
enum {
    TD_CUBLASLT_HOST = 0,
    TD_CUBLASLT_COL = 0,
    TD_CUBLASLT_STRIDED = 0,
    TD_CUBLASLT_DEFAULT = 1, TD_CUBLASLT_BIAS = 4,
    TD_CUBLASLT_SCALAR = 0, TD_CUBLASLT_OUTER_VECTOR = 3
};

enum td_cublaslt_desc {               /* cublasLtMatmulDescAttributes_t */
    TD_CUBLASLT_DESC_COMPUTE_TYPE = 0,
    TD_CUBLASLT_DESC_SCALE_TYPE = 1,
    TD_CUBLASLT_DESC_POINTER_MODE = 2,
    TD_CUBLASLT_DESC_TRANSA = 3,
    TD_CUBLASLT_DESC_TRANSB = 4,
    TD_CUBLASLT_DESC_TRANSC = 5,
    TD_CUBLASLT_DESC_FILL_MODE = 6,
    TD_CUBLASLT_DESC_EPILOGUE = 7,
    TD_CUBLASLT_DESC_BIAS_POINTER = 8,     /* 8 bytes, as the next four */
    TD_CUBLASLT_DESC_A_SCALE_POINTER = 17,
    TD_CUBLASLT_DESC_B_SCALE_POINTER = 18,
    TD_CUBLASLT_DESC_C_SCALE_POINTER = 19,
    TD_CUBLASLT_DESC_D_SCALE_POINTER = 20,
    TD_CUBLASLT_DESC_AMAX_D_POINTER = 21,  /* 8 bytes */
    TD_CUBLASLT_DESC_BIAS_DATA_TYPE = 26,  /* -1: the type of D */
    TD_CUBLASLT_DESC_A_SCALE_MODE = 31,    /* this and the next are not in older libraries */
    TD_CUBLASLT_DESC_B_SCALE_MODE = 32
};
enum td_cublaslt_layout {             /* cublasLtMatrixLayoutAttribute_t */
    TD_CUBLASLT_LAYOUT_TYPE = 0, TD_CUBLASLT_LAYOUT_ORDER = 1,
    TD_CUBLASLT_LAYOUT_ROWS = 2, TD_CUBLASLT_LAYOUT_COLS = 3, TD_CUBLASLT_LAYOUT_LD = 4, /* 8 bytes */
    TD_CUBLASLT_LAYOUT_BATCH_COUNT = 5,
    TD_CUBLASLT_LAYOUT_BATCH_MODE = 8  /* not in older libraries */
};

enum td_cublaslt_preference {         /* cublasLtMatmulPreferenceAttributes_t */
    TD_CUBLASLT_PREF_WORKSPACE = 1,   /* at most so many bytes; 8 bytes */
    TD_CUBLASLT_PREF_ALIGN_A = 5, TD_CUBLASLT_PREF_ALIGN_B = 6,
    TD_CUBLASLT_PREF_ALIGN_C = 7, TD_CUBLASLT_PREF_ALIGN_D = 8
};

/* cublasLtMatmulHeuristicResult_t. Its first member, 64 opaque bytes, is an algorithm for cublasLtMatmul. */
struct td_cublaslt_choice { uint64_t algorithm[8]; size_t workspace_bytes; int status; float waves; int reserved[4]; };

/* D = alpha A B + beta C, in columns */
#define TD_CUBLASLT_MATMUL_ARGS (void *handle, const void *desc, const void *alpha, \
                                 const void *a, const void *a_layout, \
                                 const void *b, const void *b_layout, const void *beta, \
                                 const void *c, const void *c_layout, void *d, const void *d_layout, \
                                 const void *algorithm, void *workspace, size_t workspace_bytes, \
                                 void *stream)
#define TD_CUBLASLT_GET_ARGS (const void *of, int attribute, void *to, size_t bytes, size_t *written)

/* What the tap reads a call with: X(name, member, arguments). */
#define TD_CUBLASLT_FUNCTIONS(X) \
    X(cublasLtMatmul, matmul, TD_CUBLASLT_MATMUL_ARGS) \
    X(cublasLtMatmulDescGetAttribute, get_desc, TD_CUBLASLT_GET_ARGS) \
    X(cublasLtMatrixLayoutGetAttribute, get_layout, TD_CUBLASLT_GET_ARGS)

#define TD_CUBLASLT_SET_ARGS (void *of, int attribute, const void *value, size_t bytes)
#define TD_CUBLASLT_HEURISTIC_ARGS (void *handle, const void *desc, const void *a_layout, \
                                    const void *b_layout, const void *c_layout, const void *d_layout, \
                                    const void *preference, int wanted, \
                                    struct td_cublaslt_choice *found, int *n_found)

/* What replay needs beside cublasLtMatmul to ask for a product: X(name, member, arguments). */
#define TD_CUBLASLT_PLAN_FUNCTIONS(X) \
    X(cublasLtMatmulDescCreate, make_desc, (void **out, int compute_type, int scale_type)) \
    X(cublasLtMatmulDescDestroy, end_desc, (void *desc)) \
    X(cublasLtMatmulDescSetAttribute, set_desc, TD_CUBLASLT_SET_ARGS) \
    X(cublasLtMatrixLayoutCreate, make_layout, (void **out, int type, uint64_t rows, uint64_t cols, int64_t ld)) \
    X(cublasLtMatrixLayoutDestroy, end_layout, (void *layout)) \
    X(cublasLtMatmulPreferenceCreate, make_preference, (void **out)) \
    X(cublasLtMatmulPreferenceDestroy, end_preference, (void *preference)) \
    X(cublasLtMatmulPreferenceSetAttribute, set_preference, TD_CUBLASLT_SET_ARGS) \
    X(cublasLtMatmulAlgoGetHeuristic, choose, TD_CUBLASLT_HEURISTIC_ARGS)

#endif
