/* fake_gpu.h - a "vLLM" on the fake driver, for tests of the tap's CUDA front end: layers of GPTQ weights, launched as vLLM does.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The look-alikes are found under the names that the tap looks for: links in a folder of the test's. */
#ifndef TD_TESTS_UNIT_RECORDER_TAP_FAKE_GPU_H
#define TD_TESTS_UNIT_RECORDER_TAP_FAKE_GPU_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/fs.h"
#include "tests/helpers/fake_cuda/fake_api.h"
#include "tests/helpers/fake_gptq.h"

#define CU_MEMBER(name, member, args) int (*member) args;
static struct { TD_CUDA_NEEDED(CU_MEMBER) TD_CUDA_OPTIONAL(CU_MEMBER) FAKE_CUDA_MORE(CU_MEMBER) } cu;
static const struct fake_cuda_api *say;
static void (*cupti_take)(const char *);
static int (*cupti_subscribed)(void);

enum { LAYERS = 3, K = 64, GROUP = 32, MAX_ROWS = 512 };

struct gpu_layer { int n, bits; uint64_t qweight, qzeros, scales, perm; };
static struct gpu_layer layer[LAYERS];
static uint64_t dev_a, dev_c;          /* each the address of host memory too */
static void *gpu_module, *gpu_stream, *gpu_context;

static inline void *gpu_link(const char *dir, const char *from, const char *to)
{
    const char *o = getenv("O");
    char name[600], target[4096], path[600];

    snprintf(name, sizeof name, "%s/tests/helpers/%s", o ? o : "build", from);
    snprintf(path, sizeof path, "%s/%s", dir, to);
    if (!realpath(name, target) || symlink(target, path))
        return NULL;
    return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

/* How often something was copied within the device's memory, many pieces at once or not. */
static inline uint64_t gpu_copies(void)
{
    return say->calls("cuMemcpyDtoDAsync_v2") + say->calls("td_gather");
}

static inline uint64_t gpu_memory(size_t bytes)
{
    uint64_t d = 0;

    cu.mem_alloc(&d, bytes);
    return d;
}

static inline void gpu_fill_layer(struct gpu_layer *w, int n, unsigned seed)
{
    uint32_t *q, *z;
    uint16_t *s;
    int i;

    w->n = n;
    w->bits = 4;
    w->qweight = gpu_memory((size_t)(K / 8 * n) * 4);
    w->qzeros = gpu_memory((size_t)(K / GROUP * n / 8) * 4);
    w->scales = gpu_memory((size_t)(K / GROUP * n) * 2);
    q = (uint32_t *)w->qweight, z = (uint32_t *)w->qzeros, s = (uint16_t *)w->scales;
    for (i = 0; i < K / 8 * n; i++)
        q[i] = (uint32_t)i * 2654435761u + seed;
    for (i = 0; i < K / GROUP * n / 8; i++)
        z[i] = 0x77777777u;
    for (i = 0; i < K / GROUP * n; i++)
        s[i] = (uint16_t)(0x2000 + i % 512);
}

static inline bool gpu_open(const char *dir)
{
    void *cublas, *cuda = gpu_link(dir, "lib_fake_cuda.so", "libcuda.so.1"), *cupti = gpu_link(dir, "lib_fake_cupti.so", "libcupti.so.13");
    const struct fake_cuda_api *(*api)(void);
    int l;

    cublas = cuda ? gpu_link(dir, "lib_fake_cublas.so", "libcublas.so.13") : NULL;
    if (!cuda || !cupti || !cublas)
        return false;
#define CU_FIND(name, member, args) *(void **)&cu.member = dlsym(cuda, #name);
    TD_CUDA_NEEDED(CU_FIND) TD_CUDA_OPTIONAL(CU_FIND) FAKE_CUDA_MORE(CU_FIND)
    *(void **)&api = dlsym(cuda, "fake_cuda_api");
    *(void **)&cupti_take = dlsym(cupti, "fake_cupti_occupy");
    *(void **)&cupti_subscribed = dlsym(cupti, "fake_cupti_subscribed");
    say = api();
    say->use_thread(true);             /* the sender watches memory, and calls nothing */
    fake_gptq_add(say);
    if (cu.init(0) || cu.primary_retain(&gpu_context, 0) || cu.ctx_set_current(gpu_context) || cu.module_load(&gpu_module, FAKE_GPTQ_IMAGE) ||
        cu.stream_create(&gpu_stream, TD_CUDA_STREAM_NON_BLOCKING))
        return false;
    for (l = 0; l < LAYERS; l++)
        gpu_fill_layer(&layer[l], 32 * (l + 1), (unsigned)l * 77);
    dev_a = gpu_memory(MAX_ROWS * K * 2);
    dev_c = gpu_memory(MAX_ROWS * 32 * LAYERS * 2);
    return true;
}

/* The parameters of one launch, as its kernel takes them. */
struct gpu_params { uint64_t a, qweight, qzeros, scales, c; int m, n, k, groups; bool v2; uint64_t perm; void *at[11]; };

static inline void gpu_fill_params(struct gpu_params *p, const struct gpu_layer *w, int first, int m)
{
    *p = (struct gpu_params){dev_a + (uint64_t)(first * K) * 2, w->qweight, w->qzeros, w->scales, dev_c + (uint64_t)(first * w->n) * 2, m, w->n, K, K / GROUP,
                             false, w->perm, {NULL}};
    p->at[0] = &p->a, p->at[1] = &p->qweight, p->at[2] = &p->qzeros, p->at[3] = &p->scales, p->at[4] = &p->c, p->at[5] = &p->m, p->at[6] = &p->n;
    p->at[7] = &p->k, p->at[8] = &p->groups, p->at[9] = &p->v2, p->at[10] = &p->perm;
}

static inline void *gpu_kernel(const char *symbol)
{
    void *f = NULL;

    cu.module_get_function(&f, gpu_module, symbol);
    return f;
}

static inline const char *gpu_symbol(int rows)
{
#define GPU_SYMBOL(r) FAKE_GPTQ_4BIT(r),
    static const char *const all[] = {FAKE_GPTQ_KERNELS(GPU_SYMBOL)};

    return all[rows - 1];
}

static inline int gpu_launch(const struct gpu_layer *w, int first, int m, int block_rows)
{
    struct gpu_params p;

    gpu_fill_params(&p, w, first, m);
    return cu.launch(gpu_kernel(gpu_symbol(block_rows)), (unsigned)(w->n + 511) / 512, (unsigned)((m + block_rows - 1) / block_rows), 1, 128, 1, 1, 0, gpu_stream, p.at, NULL);
}

/* One product, as vLLM's gptq_gemm launches it: blocks of eight rows, then what is left. */
static inline void gpu_gemm(const struct gpu_layer *w, int m)
{
    int whole = m / 8 * 8;

    if (whole)
        gpu_launch(w, 0, whole, 8);
    if (m > whole)
        gpu_launch(w, whole, m - whole, m - whole);
}

static inline void gpu_others(int n)
{
    int count = 4, i;
    uint64_t p = dev_a;
    void *at[] = {&count, &p}, *f = gpu_kernel(FAKE_OTHER);

    for (i = 0; i < n; i++)
        cu.launch(f, 1, 1, 1, 32, 1, 1, 0, gpu_stream, at, NULL);
}

/* New activations of m rows: what was launched before is waited for, as the device's own order would. */
static inline void gpu_activations(int m, unsigned seed)
{
    uint16_t *a = (uint16_t *)dev_a;
    int i;

    cu.stream_synchronize(gpu_stream);
    for (i = 0; i < m * K; i++)
        a[i] = (uint16_t)(0x3000 + (seed * 31 + (unsigned)i * 7) % 2048);
}

/* A forward pass: all layers on the same activations, other kernels around and between. */
static inline void gpu_pass(int m, unsigned seed)
{
    int l;

    gpu_others(20);
    gpu_activations(m, seed);
    for (l = 0; l < LAYERS; l++) {
        gpu_others(3);
        gpu_gemm(&layer[l], m);
        cu.stream_synchronize(gpu_stream); /* the next layer writes into the same c */
    }
}

/* ---- for cmocka ---------------------------------------------------------------------------------------------------- */

static char gpu_folder[] = "/tmp/td-gpu-XXXXXX";
int InitializeInjection(void);

static inline int gpu_setup(void **state)
{
    (void)state;
    setenv("TD_TAP_DIR", "/nonexistent", 1);
    if (!mkdtemp(gpu_folder) || !gpu_open(gpu_folder))
        return -1;
    return InitializeInjection() != 1;
}

static inline int gpu_teardown(void **state)
{
    (void)state;
    return td_fs_remove_tree(gpu_folder, NULL);
}

#endif
