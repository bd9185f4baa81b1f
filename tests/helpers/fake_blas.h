/* fake_blas.h - the part that the fake cuBLAS and the fake hipBLAS share: a handle, and the kernels
 * for C = A W and C = A W' on the fake driver.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The real library finds the driver by the driver's usual name. fake_blas_create() uses the driver
 * library that TD_CUDA_LIBRARY or TD_HIP_LIBRARY names, because the provider under test loads that
 * one.
 *
 * TD_FAKE_BLAS=<word> makes the products wrong:
 *   half     round the sum to float16 after every sixteen products, as Hgemm may do
 *   column   from column 64 on, use the next column of W
 *   behind   write one element behind C
 *   refuse   return an internal error and compute nothing */
#ifndef TD_TESTS_HELPERS_FAKE_BLAS_H
#define TD_TESTS_HELPERS_FAKE_BLAS_H

#include <dlfcn.h>
#include <stdlib.h>

#include "tests/helpers/fake_cuda/fake_api.h"
#include "tests/helpers/fake_gptq.h"

#define FAKE_BLAS_PRODUCT "_Z17fake_blas_productPK6__halfS1_PS_iii"
#define FAKE_BLAS_LINEAR "_Z16fake_blas_linearPK6__halfS1_PS_iiiiiiS1_"

/* What a BLAS handle points to. `next` and `linear` are set in handles of fake_blas_create()
 * only. */
struct fake_blas {
    void *kernel, *stream;
    int mode;                          /* pointer mode; 1: alpha and beta lie on the device */
    struct fake_blas *next;
    void *linear;                      /* the kernel for C = A W' */
};

static void *fake_blas_driver;         /* NULL: use the driver that the process has loaded */
static void *fake_blas_module;
/* Handles not yet destroyed. A caller cannot destroy a handle after a fault ended the device. */
static struct fake_blas *fake_blas_handles;
static float *fake_blas_held[2];       /* operands in float; a fault may interrupt the product */

__attribute__((destructor)) static void fake_blas_end(void)
{
    while (fake_blas_handles) {
        struct fake_blas *h = fake_blas_handles;

        fake_blas_handles = h->next;
        free(h);
    }
    free(fake_blas_held[0]);
    free(fake_blas_held[1]);
}

static inline int fake_blas_is(const char *word)
{
    const char *env = getenv("TD_FAKE_BLAS");

    return env && !strcmp(env, word);
}

static inline float fake_blas_float(uint16_t v, int bf16)
{
    const uint32_t wide = (uint32_t)v << 16;
    float f;

    memcpy(&f, &wide, sizeof f);
    return bf16 ? f : fake_gptq_float(v);
}

/* Round to float16 or bfloat16: to nearest, ties to even. */
static inline uint16_t fake_blas_round(double sum, int bf16)
{
    const float f = (float)sum;
    uint32_t v;

    if (!bf16)
        return fake_gptq_half(f);
    memcpy(&v, &f, sizeof v);
    return isnan(f) ? 0x7fc0 : (uint16_t)((v + 0x7fff + (v >> 16 & 1)) >> 16);
}

/* Convert a [rows, cols] operand, its rows `stride` elements apart, to a dense array of floats.
 * The array belongs to fake_blas_held[which]. */
static inline float *fake_blas_floats(int which, const uint16_t *from, int rows, int cols, int stride, int bf16)
{
    float *to = malloc((size_t)rows * (size_t)cols * sizeof *to + 1);

    free(fake_blas_held[which]);
    fake_blas_held[which] = to;
    for (int i = 0; to && i < rows; i++)
        for (int j = 0; j < cols; j++)
            to[i * cols + j] = fake_blas_float(from[i * stride + j], bf16);
    return to;
}

/* The product of row a and column w; the elements of w lie n apart. half: sum in float16. */
static inline double fake_blas_dot(const float *a, const float *w, int n, int k, int half)
{
    double sum = 0;

    for (int r = 0; r < k; r++) {
        sum += (double)a[r] * w[r * n];
        if (half && r % 16 == 15 && !isnan(sum))
            sum = fake_gptq_float(fake_gptq_half((float)sum));
    }
    return sum;
}

/* a [m, k], w [k, n], c [m, n], m, n, k */
static inline void fake_blas_run(const struct fake_cuda_launch *l, void *user)
{
    const int m = *(int *)l->params[3], n = *(int *)l->params[4], k = *(int *)l->params[5], half = fake_blas_is("half"), column = fake_blas_is("column");
    float *a = fake_blas_floats(0, *(const uint16_t **)l->params[0], m, k, k, 0), *w = fake_blas_floats(1, *(const uint16_t **)l->params[1], k, n, n, 0);
    uint16_t *c = *(uint16_t **)l->params[2];

    (void)user;
    for (int i = 0; i < m && a && w; i++)
        for (int j = 0; j < n; j++)
            c[i * n + j] = fake_blas_round(fake_blas_dot(a + i * k, w + (column && j >= 64 ? (j + 1) % n : j), n, k, half), 0);
    if (fake_blas_is("behind"))
        c[m * n] = 0x3c00;
}

/* a [m, k], w [n, k], c [m, n], m, n, k, lda, ldc, bfloat16 or float16, bias [n] or NULL */
static inline void fake_blas_run_linear(const struct fake_cuda_launch *l, void *user)
{
    const int m = *(int *)l->params[3], n = *(int *)l->params[4], k = *(int *)l->params[5], lda = *(int *)l->params[6], ldc = *(int *)l->params[7], bf16 = *(int *)l->params[8];
    const int half = fake_blas_is("half"), column = fake_blas_is("column");
    float *a = fake_blas_floats(0, *(const uint16_t **)l->params[0], m, k, lda, bf16), *w = fake_blas_floats(1, *(const uint16_t **)l->params[1], n, k, k, bf16);
    const uint16_t *bias = *(const uint16_t **)l->params[9];
    uint16_t *c = *(uint16_t **)l->params[2];

    (void)user;
    for (int i = 0; i < m && a && w; i++)
        for (int j = 0; j < n; j++) {
            const int from = column && j >= 64 ? (j + 1) % n : j;

            c[i * ldc + j] = fake_blas_round(fake_blas_dot(a + i * k, w + from * k, 1, k, half) + (bias ? fake_blas_float(bias[from], bf16) : 0), bf16);
        }
    if (fake_blas_is("behind"))
        c[(m - 1) * ldc + n] = 0x3c00;
}

static inline void *fake_blas_driver_function(const char *name)
{
    return dlsym(fake_blas_driver ? fake_blas_driver : RTLD_DEFAULT, name);
}

/* Use the driver that environment variable `library` names, if the provider has loaded it. */
static inline void fake_blas_open_driver(const char *library)
{
    const char *named = getenv(library);

    fake_blas_driver = named ? dlopen(named, RTLD_NOLOAD | RTLD_LAZY) : NULL;
}

/* Returns 0, or 1: NOT_INITIALIZED, in cuBLAS and in hipBLAS. */
static inline int fake_blas_create(void **handle, const char *library)
{
    static const struct fake_cuda_kernel product = {.symbol = FAKE_BLAS_PRODUCT, .n_params = 6, .param = {{0, 8}, {8, 8}, {16, 8}, {24, 4}, {28, 4}, {32, 4}}, .run = fake_blas_run};
    static const struct fake_cuda_kernel linear = {.symbol = FAKE_BLAS_LINEAR, .n_params = 10, .run = fake_blas_run_linear,
                                                   .param = {{0, 8}, {8, 8}, {16, 8}, {24, 4}, {28, 4}, {32, 4}, {36, 4}, {40, 4}, {44, 4}, {48, 8}}};
    const struct fake_cuda_api *(*api)(void);
    int (*load)(void **, const void *), (*function)(void **, void *, const char *);
    struct fake_blas *h = calloc(1, sizeof *h);

    fake_blas_open_driver(library);
    *(void **)&api = fake_blas_driver_function("fake_cuda_api");
    *(void **)&load = fake_blas_driver_function("cuModuleLoadData");
    *(void **)&function = fake_blas_driver_function("cuModuleGetFunction");
    if (h && api && load && function) {
        api()->add_kernel(&product);
        api()->add_kernel(&linear);
    }
    if (!h || !api || !load || !function || load(&fake_blas_module, "TDFAKE " FAKE_BLAS_PRODUCT " " FAKE_BLAS_LINEAR)
        || function(&h->kernel, fake_blas_module, FAKE_BLAS_PRODUCT) || function(&h->linear, fake_blas_module, FAKE_BLAS_LINEAR)) {
        free(h);
        return 1;
    }
    h->next = fake_blas_handles;
    fake_blas_handles = h;
    *handle = h;
    return 0;
}

static inline int fake_blas_destroy(void *handle)
{
    struct fake_blas **at = &fake_blas_handles;
    int (*unload)(void *);

    *(void **)&unload = fake_blas_driver_function("cuModuleUnload");
    while (*at && *at != handle)
        at = &(*at)->next;
    if (*at)
        *at = (*at)->next;
    free(handle);
    return unload(fake_blas_module) ? 1 : 0;
}

/* True if fake_blas_create() made the handle and fake_blas_destroy() has not freed it. */
static inline int fake_blas_is_ours(const struct fake_blas *h)
{
    const struct fake_blas *at = fake_blas_handles;

    while (at && at != h)
        at = at->next;
    return at != NULL;
}

static inline int fake_blas_launch(struct fake_blas *h, int m, int n, int k, const uint16_t *a, const uint16_t *w, uint16_t *c)
{
    int (*launch) FAKE_CUDA_LAUNCH_ARGS;
    void *at[] = {&a, &w, &c, &m, &n, &k};

    *(void **)&launch = fake_blas_driver_function("cuLaunchKernel");
    return !launch || launch(h->kernel, 1, 1, 1, 128, 1, 1, 0, h->stream, at, NULL);
}

/* Launch C = A W' + bias. h must come from fake_blas_create(); bias may be NULL. */
static inline int fake_blas_launch_linear(struct fake_blas *h, int m, int n, int k, const void *a, int lda, const void *w, void *c, int ldc, int bf16, const void *bias)
{
    int (*launch) FAKE_CUDA_LAUNCH_ARGS;
    void *at[] = {&a, &w, &c, &m, &n, &k, &lda, &ldc, &bf16, &bias};

    *(void **)&launch = fake_blas_driver_function("cuLaunchKernel");
    return !launch || launch(h->linear, 1, 1, 1, 128, 1, 1, 0, h->stream, at, NULL);
}

#endif
