/* cublas_lt.c - the tap before cublasLtMatmul, with which torch computes layers that are not
 * quantised and have a bias, and some without one.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It is recorded unless the server was started with TD_TAP_CUBLAS=0. Source: torch
 * 2.11, ATen/cuda/CUDABlas.cpp, gemm_and_bias and gemm_internal_cublaslt: D = W A^T in columns,
 * which is A W^T in rows; W and A as cublasGemmEx has them (cublas_gemm.c), the bias by the
 * epilogue. Descriptors hold what the call means, and the library itself is asked for their values:
 * its getters read memory of the host and do no more. A call for which they do not answer as below
 * is passed on, and its kernels are counted by name. torch's _scaled_mm (the same file, scaled_gemm)
 * is the same product of 8-bit floats, with scales of the operands' own. */
#include <errno.h>

#include "kernels/abi/cublaslt_abi.h"
#include "recorder/tap/cuda/cublas_linear.h"
#include "recorder/tap/cuda/cublas_scaled.h"
#include "recorder/tap/gpu/gpu_threads.h"

#define FAILED 13                     /* CUBLAS_STATUS_EXECUTION_FAILED */
#define VALUES \
    (handle, desc, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, algorithm, \
     workspace, workspace_bytes, stream)

typedef int matmul_fn TD_CUBLASLT_MATMUL_ARGS;
typedef int get_fn TD_CUBLASLT_GET_ARGS;
TAP_EXPORT matmul_fn cublasLtMatmul;

static struct tap_symbol matmul = {.name = "cublasLtMatmul"},
                         get_desc = {.name = "cublasLtMatmulDescGetAttribute"},
                         get_layout = {.name = "cublasLtMatrixLayoutGetAttribute"};

struct layout { int32_t type, order, batches, batch_mode; uint64_t rows, cols; int64_t ld; };
struct types { int32_t a, w, d; };
struct call {
    const void *desc, *alpha, *beta, *a, *a_layout, *b, *b_layout, *c_layout, *d, *d_layout;
};

static bool ask(get_fn *get, const void *of, int attribute, void *to, size_t bytes)
{
    size_t written = 0;

    return !get(of, attribute, to, bytes, &written) && written == bytes;
}

/* ---- the descriptor -------------------------------------------------------------------------- */

/* Does the descriptor say: W transposed by A as it is, added and scaled in float32, factors on the
 * host, and no scales of C and D? */
static bool is_product(get_fn *get, const void *desc)
{
    static const struct { int attribute; int32_t value;
    } wanted[] = {{TD_CUBLASLT_DESC_COMPUTE_TYPE, TD_CUBLASLT_COMPUTE_32F},
                  {TD_CUBLASLT_DESC_SCALE_TYPE, TD_CUBLASLT_F32},
                  {TD_CUBLASLT_DESC_POINTER_MODE, TD_CUBLASLT_HOST},
                  {TD_CUBLASLT_DESC_TRANSA, TD_CUBLASLT_OP_T},
                  {TD_CUBLASLT_DESC_TRANSB, TD_CUBLASLT_OP_N},
                  {TD_CUBLASLT_DESC_TRANSC, TD_CUBLASLT_OP_N},
                  {TD_CUBLASLT_DESC_FILL_MODE, TD_CUBLASLT_FULL}};
    const void *scale;
    int32_t value;
    size_t i;
    int at;

    for (i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!ask(get, desc, wanted[i].attribute, &value, sizeof value) || value != wanted[i].value)
            return false;
    for (at = TD_CUBLASLT_DESC_C_SCALE_POINTER; at <= TD_CUBLASLT_DESC_D_SCALE_POINTER; at++)
        if (!ask(get, desc, at, &scale, sizeof scale) || scale)
            return false;
    return true;
}

/* Scales of an operand: *at, 0 if it has none. False: of a form that is not known here. *each: one
 * for each of its lines. A library that knows no modes has one scale. */
static bool read_scales(get_fn *get, const void *desc, int pointer, int mode, uint64_t *at, bool *each)
{
    const void *scale;
    int32_t value;

    if (!ask(get, desc, pointer, &scale, sizeof scale))
        return false;
    *at = (uintptr_t)scale;
    if (!ask(get, desc, mode, &value, sizeof value))
        value = TD_CUBLASLT_SCALAR;
    *each = value == TD_CUBLASLT_OUTER_VECTOR;
    return *each || value == TD_CUBLASLT_SCALAR;
}

/* Of W and A. */
static bool read_both_scales(get_fn *get, const void *desc, struct tap_cublas_scaled *p)
{
    return read_scales(get, desc, TD_CUBLASLT_DESC_A_SCALE_POINTER, TD_CUBLASLT_DESC_A_SCALE_MODE,
                       &p->w_scales, &p->by_column) &&
           read_scales(get, desc, TD_CUBLASLT_DESC_B_SCALE_POINTER, TD_CUBLASLT_DESC_B_SCALE_MODE,
                       &p->a_scales, &p->by_row);
}

/* Read the epilogue. False: something other than a bias of D's type is made of the product. *bias:
 * its address; 0: none. */
static bool read_bias(get_fn *get, const void *desc, int32_t type, uint64_t *bias)
{
    const void *at = NULL;
    int32_t bias_type;
    uint32_t epilogue;

    *bias = 0;
    if (!ask(get, desc, TD_CUBLASLT_DESC_EPILOGUE, &epilogue, sizeof epilogue))
        return false;
    if (epilogue == TD_CUBLASLT_DEFAULT)
        return true;
    if (epilogue != TD_CUBLASLT_BIAS ||
        !ask(get, desc, TD_CUBLASLT_DESC_BIAS_POINTER, &at, sizeof at) ||
        !ask(get, desc, TD_CUBLASLT_DESC_BIAS_DATA_TYPE, &bias_type, sizeof bias_type) ||
        (bias_type != -1 && bias_type != type))
        return false;
    *bias = (uintptr_t)at;
    return at != NULL;
}

/* ---- the layouts ----------------------------------------------------------------------------- */

/* Read the layout of one matrix in columns. False: it is none, or its sizes or stride do not fit an
 * int. (A library that knows no batch modes has strided ones only.) */
static bool read_layout(get_fn *get, const void *of, struct layout *l)
{
    if (!of || !ask(get, of, TD_CUBLASLT_LAYOUT_TYPE, &l->type, sizeof l->type) ||
        !ask(get, of, TD_CUBLASLT_LAYOUT_ORDER, &l->order, sizeof l->order) ||
        !ask(get, of, TD_CUBLASLT_LAYOUT_ROWS, &l->rows, sizeof l->rows) ||
        !ask(get, of, TD_CUBLASLT_LAYOUT_COLS, &l->cols, sizeof l->cols) ||
        !ask(get, of, TD_CUBLASLT_LAYOUT_LD, &l->ld, sizeof l->ld) ||
        !ask(get, of, TD_CUBLASLT_LAYOUT_BATCH_COUNT, &l->batches, sizeof l->batches))
        return false;
    if (!ask(get, of, TD_CUBLASLT_LAYOUT_BATCH_MODE, &l->batch_mode, sizeof l->batch_mode))
        l->batch_mode = TD_CUBLASLT_STRIDED;
    return l->order == TD_CUBLASLT_COL && l->batches == 1 && l->batch_mode == TD_CUBLASLT_STRIDED &&
           l->rows - 1 < INT32_MAX && l->cols - 1 < INT32_MAX && l->ld > 0 && l->ld <= INT32_MAX;
}

static bool is_like(const struct layout *l, int32_t type, uint64_t rows, uint64_t cols)
{
    return l->type == type && l->rows == rows && l->cols == cols && (uint64_t)l->ld >= rows;
}

/* Are W [n, k] dense, A [m, k] and D [m, n] one product? C is not read, but must be shaped as D. */
static bool read_sizes(get_fn *get, const struct call *x, struct tap_cublas_linear *p,
                       struct types *is)
{
    struct layout w, a, c, d;

    if (!read_layout(get, x->a_layout, &w) || !read_layout(get, x->b_layout, &a) ||
        !read_layout(get, x->c_layout, &c) || !read_layout(get, x->d_layout, &d))
        return false;
    *is = (struct types){a.type, w.type, d.type};
    if ((uint64_t)w.ld != w.rows || !is_like(&a, a.type, w.rows, d.cols) ||
        !is_like(&d, d.type, w.cols, a.cols) || !is_like(&c, d.type, d.rows, d.cols))
        return false;
    p->m = (int32_t)d.cols, p->n = (int32_t)w.cols, p->k = (int32_t)w.rows, p->lda = (int32_t)a.ld,
    p->ldc = (int32_t)d.ld;
    p->a = (uintptr_t)x->b, p->w = (uintptr_t)x->a, p->c = (uintptr_t)x->d;
    return true;
}

/* ---- the call -------------------------------------------------------------------------------- */

/* What a call is. */
struct product {
    enum { OTHER, LINEAR, SCALED } is;
    struct tap_cublas_linear linear;   /* also of SCALED */
    struct tap_cublas_scaled scaled;
    bool bf16;
};

static const char *eight_bits(int32_t type)
{
    return type == TD_CUBLASLT_E4M3 ? "F8_E4M3" : type == TD_CUBLASLT_E5M2 ? "F8_E5M2" : NULL;
}

static const char *result(int32_t type)
{
    return type == TD_CUBLASLT_BF16 ? "BF16" : type == TD_CUBLASLT_F16 ? "F16" : NULL;
}

/* Are there scales of 8-bit floats, and D is not, and nobody asks for its largest number? */
static bool read_scaled(get_fn *get, const void *desc, const struct types *is, struct tap_cublas_scaled *p)
{
    const void *amax;

    p->a_type = eight_bits(is->a), p->w_type = eight_bits(is->w), p->c_type = result(is->d);
    return p->a_type && p->w_type && p->c_type && p->a_scales && p->w_scales &&
           ask(get, desc, TD_CUBLASLT_DESC_AMAX_D_POINTER, &amax, sizeof amax) && !amax;
}

/* The factors are read last, when they are known to be floats on the host. */
static bool read_product(matmul_fn *real, const struct call *x, struct product *p)
{
    get_fn *of_desc = (get_fn *)tap_real_find(&get_desc, (const void *)real),
           *of_layout = (get_fn *)tap_real_find(&get_layout, (const void *)real);
    struct tap_cublas_scaled *s = &p->scaled;
    struct types is;

    p->is = OTHER;
    if (!of_desc || !of_layout || !x->desc || !is_product(of_desc, x->desc) ||
        !read_both_scales(of_desc, x->desc, s) || !read_sizes(of_layout, x, &p->linear, &is) ||
        !read_bias(of_desc, x->desc, is.d, &p->linear.bias) || !x->alpha || !x->beta ||
        *(const float *)x->alpha != 1.0f || *(const float *)x->beta != 0.0f)
        return false;
    if (result(is.w) && is.a == is.w && is.d == is.w && !s->a_scales && !s->w_scales)
        p->is = LINEAR;
    else if (read_scaled(of_desc, x->desc, &is, s))
        p->is = SCALED;
    p->bf16 = is.w == TD_CUBLASLT_BF16;
    return p->is != OTHER;
}

static uint64_t enter(const struct product *p, struct tap_gpu_launch *l)
{
    return p->is == SCALED ? tap_cublas_scaled_enter(&p->linear, &p->scaled, l)
                           : tap_cublas_linear_enter(&p->linear, TAP_CUBLAS_LT_MATMUL, p->bf16, l);
}

static void captured(const struct tap_gpu_capture_mark *mark, const struct product *p,
                     struct tap_gpu_launch *l)
{
    if (p->is == SCALED)
        tap_cublas_scaled_captured(mark, &p->linear, &p->scaled, l);
    else
        tap_cublas_linear_captured(mark, &p->linear, TAP_CUBLAS_LT_MATMUL, p->bf16, l);
}

int cublasLtMatmul TD_CUBLASLT_MATMUL_ARGS
{
    int e = errno, rc;
    matmul_fn *real = (matmul_fn *)tap_real_find(&matmul, __builtin_return_address(0));
    const struct call x = {desc, alpha, beta, a, a_layout, b, b_layout, c_layout, d, d_layout};
    struct tap_gpu_launch l = {.stream = stream};
    struct tap_gpu_capture_mark mark;
    struct product p;
    uint64_t token = 0;
    bool before;

    errno = e;
    tap_gpu_note_call();
    if (!real)
        return FAILED;
    if (tap_gpu_captures_any() && tap_cublas_linear_wanted() && !tap_gpu_thread.in_library_call &&
        read_product(real, &x, &p) && tap_gpu_capture_begins(&mark, stream)) {
        tap_gpu_set_in_library_call(true);
        rc = real VALUES;
        tap_gpu_set_in_library_call(false);
        if (!rc)
            captured(&mark, &p, &l);
        return rc;
    }
    if (!tap_armed() || !tap_cublas_linear_wanted() || !tap_gpu_come_in())
        return real VALUES;
    before = tap_gpu_set_in_library_call(true);
    /* Else the call is internal to another library call, or is no such GEMM. */
    if (!before && read_product(real, &x, &p))
        token = enter(&p, &l);
    else
        tap_gpu_set_in_library_call(before);
    tap_gpu_go_out();
    errno = e;
    rc = real VALUES;
    tap_cublas_linear_leave(token, &l, before, rc == 0);
    return rc;
}
