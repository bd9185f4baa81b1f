/* lib_fake_cublas_with_lt.c - lib_fake_cublas.so plus the part of cublasLt that provider cuda needs
 * to replay a linear layer with a bias: planning a product, and running it on the fake driver.
 * SPDX-License-Identifier: Apache-2.0
 *
 * lib_fake_cublaslt.c is the cublasLt of a recorded server: it answers questions about a call and
 * has no planning. This library refuses every call that torch would not make: another descriptor,
 * another workspace, or an algorithm that was chosen for other addresses or alignments. A handle is
 * a struct fake_blas; a descriptor, layout or preference is a struct fake_lt. TD_FAKE_BLAS: the
 * words of fake_blas.h, and no-algorithm: the heuristic finds no algorithm. */
#include "tests/helpers/fake_blas.h"
#include "tests/helpers/fake_cublaslt.h"

#define DECLARE(name, member, args) int name args;
DECLARE(cublasLtMatmul, , TD_CUBLASLT_MATMUL_ARGS)
TD_CUBLASLT_PLAN_FUNCTIONS(DECLARE)
#define TORCH_WORKSPACE (1u << 20)
#define CHOSEN 0x7f4c74u               /* marks an algorithm of this library */

/* ---- planning a product ------------------------------------------------------------------ */

static int new_object(void **out, struct fake_lt value)
{
    if (!(*out = malloc(sizeof value)))
        return 3;                      /* CUBLAS_STATUS_ALLOC_FAILED */
    memcpy(*out, &value, sizeof value);
    return 0;
}

static int free_object(void *of)
{
    free(of);
    return 0;
}

static int set_attribute(void *of, int attribute, const void *value, size_t bytes)
{
    struct fake_lt *o = of;

    if (attribute < 0 || attribute >= FAKE_LT_ATTRIBUTES || !o->at[attribute].bytes || bytes != o->at[attribute].bytes)
        return 7;
    o->at[attribute].value = 0;
    memcpy(&o->at[attribute].value, value, bytes);
    return 0;
}

int cublasLtMatmulDescCreate(void **out, int compute_type, int scale_type)
{
    struct fake_lt o = fake_lt_desc(0);

    fake_lt_set(&o, TD_CUBLASLT_DESC_COMPUTE_TYPE, 4, (uint64_t)compute_type);
    fake_lt_set(&o, TD_CUBLASLT_DESC_SCALE_TYPE, 4, (uint64_t)scale_type);
    fake_lt_set(&o, TD_CUBLASLT_DESC_TRANSA, 4, TD_CUBLASLT_OP_N);
    return new_object(out, o);
}

int cublasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t cols, int64_t ld)
{
    return new_object(out, fake_lt_layout(type, rows, cols, (uint64_t)ld));
}

int cublasLtMatmulPreferenceCreate(void **out)
{
    struct fake_lt o;
    int i;

    memset(&o, 0, sizeof o);
    fake_lt_set(&o, TD_CUBLASLT_PREF_WORKSPACE, 8, 0);
    for (i = TD_CUBLASLT_PREF_ALIGN_A; i <= TD_CUBLASLT_PREF_ALIGN_D; i++)
        fake_lt_set(&o, i, 4, 256);
    return new_object(out, o);
}

int cublasLtMatmulDescDestroy(void *desc) { return free_object(desc); }
int cublasLtMatrixLayoutDestroy(void *layout) { return free_object(layout); }
int cublasLtMatmulPreferenceDestroy(void *preference) { return free_object(preference); }
int cublasLtMatmulDescSetAttribute TD_CUBLASLT_SET_ARGS { return set_attribute(of, attribute, value, bytes); }
int cublasLtMatmulPreferenceSetAttribute TD_CUBLASLT_SET_ARGS { return set_attribute(of, attribute, value, bytes); }

static uint64_t value_of(const void *of, int attribute)
{
    return ((const struct fake_lt *)of)->at[attribute].value;
}

static int is_torchs(const void *desc)
{
    return value_of(desc, TD_CUBLASLT_DESC_COMPUTE_TYPE) == TD_CUBLASLT_COMPUTE_32F && value_of(desc, TD_CUBLASLT_DESC_SCALE_TYPE) == TD_CUBLASLT_F32 &&
           value_of(desc, TD_CUBLASLT_DESC_TRANSA) == TD_CUBLASLT_OP_T && value_of(desc, TD_CUBLASLT_DESC_TRANSB) == TD_CUBLASLT_OP_N &&
           value_of(desc, TD_CUBLASLT_DESC_EPILOGUE) == TD_CUBLASLT_BIAS && value_of(desc, TD_CUBLASLT_DESC_BIAS_POINTER);
}

/* The algorithm holds the alignments and the bias that the caller asked for. cublasLtMatmul
 * compares them with its arguments. */
int cublasLtMatmulAlgoGetHeuristic TD_CUBLASLT_HEURISTIC_ARGS
{
    int i;

    if (!handle || !is_torchs(desc) || c_layout != d_layout || wanted != 1 || value_of(a_layout, TD_CUBLASLT_LAYOUT_ROWS) != value_of(b_layout, TD_CUBLASLT_LAYOUT_ROWS)
        || value_of(preference, TD_CUBLASLT_PREF_WORKSPACE) != TORCH_WORKSPACE)
        return 7;
    *n_found = !fake_blas_is("no-algorithm");
    memset(found, 0, sizeof *found);
    found->algorithm[0] = CHOSEN;
    for (i = 0; i < 4; i++)
        found->algorithm[1 + i] = value_of(preference, TD_CUBLASLT_PREF_ALIGN_A + i);
    found->algorithm[5] = value_of(desc, TD_CUBLASLT_DESC_BIAS_POINTER);
    return 0;
}

/* ---- the product ------------------------------------------------------------------------- */

/* True if `bytes` is the largest power of two, up to 256, that divides the address. */
static int is_alignment(uint64_t bytes, uint64_t address)
{
    return bytes && address % bytes == 0 && (bytes == 256 || address % (2 * bytes));
}

int cublasLtMatmul TD_CUBLASLT_MATMUL_ARGS
{
    const uint64_t *chosen = algorithm, bias = value_of(desc, TD_CUBLASLT_DESC_BIAS_POINTER), addresses[] = {(uintptr_t)a, (uintptr_t)b, (uintptr_t)d, bias};
    int i;

    if (!chosen || chosen[0] != CHOSEN || chosen[5] != bias || *(const float *)alpha != 1 || *(const float *)beta != 0 || c != d || c_layout != d_layout || !workspace ||
        workspace_bytes != TORCH_WORKSPACE || stream != ((struct fake_blas *)handle)->stream)
        return 7;
    for (i = 0; i < 4; i++)
        if (!is_alignment(chosen[1 + i], addresses[i]))
            return 7;
    if (fake_blas_is("refuse"))
        return 14;
    fake_blas_open_driver("TD_CUDA_LIBRARY");
    return fake_blas_launch_linear(handle, (int)value_of(d_layout, TD_CUBLASLT_LAYOUT_COLS), (int)value_of(d_layout, TD_CUBLASLT_LAYOUT_ROWS),
                                   (int)value_of(a_layout, TD_CUBLASLT_LAYOUT_ROWS), b, (int)value_of(b_layout, TD_CUBLASLT_LAYOUT_LD), a, d,
                                   (int)value_of(d_layout, TD_CUBLASLT_LAYOUT_LD), value_of(a_layout, TD_CUBLASLT_LAYOUT_TYPE) == TD_CUBLASLT_BF16, (const void *)(uintptr_t)bias)
               ? 13 : 0;
}
