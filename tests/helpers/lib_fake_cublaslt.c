/* lib_fake_cublaslt.c - a fake libcublasLt.so.13 for tests of the tap: cublasLtMatmul over the fake
 * driver, and the functions that read a descriptor's or a layout's attributes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * cublasLtMatmul computes C = A W^T + bias whatever the descriptor asks for: the test is about what
 * the tap reads from the call. lib_fake_cublas_with_lt.c is the strict fake for replay. A handle is
 * a struct fake_blas; a descriptor or layout is a struct fake_lt. */
#include <errno.h>

#include "tests/helpers/fake_blas.h"
#include "tests/helpers/fake_cublaslt.h"

#define LINEAR "_Z14fake_lt_linearPK6__halfS1_S1_PS_iiiii"
#define DECLARE(name, member, args) int name args;
TD_CUBLASLT_FUNCTIONS(DECLARE)
int cublasLtCreate(void **handle);

/* a [m, lda], w [n, k], bias [n] or NULL, c [m, ldc], m, n, k, lda, ldc */
static void run(const struct fake_cuda_launch *l, void *user)
{
    const uint16_t *a = *(const uint16_t **)l->params[0], *w = *(const uint16_t **)l->params[1], *bias = *(const uint16_t **)l->params[2];
    const int m = *(int *)l->params[4], n = *(int *)l->params[5], k = *(int *)l->params[6], lda = *(int *)l->params[7], ldc = *(int *)l->params[8];
    uint16_t *c = *(uint16_t **)l->params[3];
    int i, j, r;

    (void)user;
    for (i = 0; i < m; i++)
        for (j = 0; j < n; j++) {
            double sum = bias ? fake_gptq_float(bias[j]) : 0;

            for (r = 0; r < k; r++)
                sum += (double)fake_gptq_float(a[i * lda + r]) * fake_gptq_float(w[j * k + r]);
            c[i * ldc + j] = fake_gptq_half((float)sum);
        }
}

int cublasLtCreate(void **handle)
{
    static const struct fake_cuda_kernel linear = {.symbol = LINEAR, .n_params = 9, .run = run,
                                                   .param = {{0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 4}, {36, 4}, {40, 4}, {44, 4}, {48, 4}}};
    static struct fake_blas h;
    static void *module;
    const struct fake_cuda_api *(*api)(void);
    int (*load)(void **, const void *), (*function)(void **, void *, const char *);

    *(void **)&api = fake_blas_driver_function("fake_cuda_api");
    *(void **)&load = fake_blas_driver_function("cuModuleLoadData");
    *(void **)&function = fake_blas_driver_function("cuModuleGetFunction");
    api()->add_kernel(&linear);
    *handle = &h;
    return load(&module, "TDFAKE " LINEAR) || function(&h.kernel, module, LINEAR);
}

static int get(const void *of, int attribute, void *to, size_t bytes, size_t *written)
{
    const struct fake_lt *o = of;

    errno = EINVAL;                    /* a real library may change errno: the tap must restore it */
    if (attribute < 0 || attribute >= FAKE_LT_ATTRIBUTES || !bytes || (bytes != o->at[attribute].bytes && o->at[attribute].bytes != FAKE_LT_SHORT))
        return 7;                      /* CUBLAS_STATUS_INVALID_VALUE */
    memcpy(to, &o->at[attribute].value, bytes);
    *written = o->at[attribute].bytes;
    return 0;
}

int cublasLtMatmulDescGetAttribute TD_CUBLASLT_GET_ARGS
{
    return get(of, attribute, to, bytes, written);
}

int cublasLtMatrixLayoutGetAttribute TD_CUBLASLT_GET_ARGS
{
    return get(of, attribute, to, bytes, written);
}

int cublasLtMatmul TD_CUBLASLT_MATMUL_ARGS
{
    const struct fake_lt *in = b_layout, *out = d_layout;
    int m = (int)out->at[TD_CUBLASLT_LAYOUT_COLS].value, n = (int)out->at[TD_CUBLASLT_LAYOUT_ROWS].value, k = (int)in->at[TD_CUBLASLT_LAYOUT_ROWS].value;
    int lda = (int)in->at[TD_CUBLASLT_LAYOUT_LD].value, ldc = (int)out->at[TD_CUBLASLT_LAYOUT_LD].value;
    uint64_t bias = ((const struct fake_lt *)desc)->at[TD_CUBLASLT_DESC_BIAS_POINTER].value;
    void *at[] = {&b, &a, &bias, &d, &m, &n, &k, &lda, &ldc};
    int (*launch) FAKE_CUDA_LAUNCH_ARGS;

    *(void **)&launch = fake_blas_driver_function("cuLaunchKernel");
    if (!alpha || !a_layout || !beta || c != d || !c_layout || !algorithm || !workspace || workspace_bytes != 1 << 20)
        return 7;
    if (fake_blas_is("refuse"))
        return 14;                     /* CUBLAS_STATUS_INTERNAL_ERROR */
    return launch(((struct fake_blas *)handle)->kernel, 1, 1, 1, 128, 1, 1, 0, stream, at, NULL) ? 13 : 0;
}
