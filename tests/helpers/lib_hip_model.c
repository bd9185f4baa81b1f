/* lib_hip_model.c - the GPU side of the fake server (tests/fakes/fake_server.py --gpu) on the fake
 * HIP runtime. lib_cuda_model.c is the same for CUDA and documents the functions.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It is linked to libamdhip64.so.6, as vLLM's libraries are, and registers its kernels as code from
 * hipcc does (fake_hip/server.c). The layers take turns at three forms of launch: <<<>>>
 * (hipLaunchKernel of a stub), hipModuleLaunchKernel with kernelParams, and
 * hipExtModuleLaunchKernel with one packed block, as rocBLAS launches. The code objects are real
 * (tests/unit/data/tap_like.cu); fake_gptq.h computes their results. */
#include <stdlib.h>
#include <string.h>

#include "kernels/abi/hip_abi.h"
#include "model/exllama_layout.h"
#include "tests/helpers/fake_gptq.h"

__asm__(".section .rodata\n.balign 4096\nhip_model_code: .incbin \"tests/unit/data/tap_like.hsaco\"\n.previous\n");
extern const char hip_model_code[] __attribute__((visibility("hidden")));

#define DECLARE(name, member, args) int name args;
TD_HIP_SHARED(DECLARE)
int hipSetDevice(int device);
int hipLaunchKernel TD_HIP_STUB_ARGUMENTS;
int TD_HIP_EXT_MANGLED TD_HIP_EXT_ARGUMENTS;
void **__hipRegisterFatBinary(const void *wrapper);
void __hipRegisterFunction(void **modules, const void *stub, char *symbol, const char *name, unsigned threads, void *tid, void *bid, void *block, void *grid, int *warp);
int hipblasHgemm(void *handle, int trans_a, int trans_b, int m, int n, int k, const uint16_t *alpha, const void *w, int lda, const void *b, int ldb, const uint16_t *beta,
                 void *to, int ldc);
const struct fake_cuda_api *fake_cuda_api(void);

int gpu_model_open(void);
int gpu_model_layer(int n, int k, int groups, int v2, const uint32_t *qweight, const uint32_t *qzeros, const uint16_t *scales, const int32_t *perm);
int gpu_model_step(int rows);

enum { LAYERS = 64, MAX_ROWS = 128, EXLLAMA_ROWS = 50, MAX_SIZE = 4096 };
static struct layer { int n, k, groups; uint8_t v2; uint64_t qweight, qzeros, scales, perm; } layers[LAYERS];
static int n_layers;
static const char *const symbols[] = {
#define SYMBOL(r) FAKE_GPTQ_4BIT(r),
    FAKE_GPTQ_KERNELS(SYMBOL)};
static char stubs[9];                 /* for eight GEMM kernels and one other; only the addresses matter */
static void *functions[8], *reconstruct, *hgemm, *module, *stream;
static uint64_t a, c, dequant_w;
static unsigned seed;

/* hipcc compiles such a constructor into every library. */
__attribute__((constructor)) static void register_kernels(void)
{
    static const struct { uint32_t magic, version; const void *binary; void *unused; } wrapper = {0x48495046, 1, hip_model_code, NULL};
    void **binary = __hipRegisterFatBinary(&wrapper);
    int i;

    for (i = 0; i < 9; i++) {
        const char *name = i < 8 ? symbols[i] : FAKE_OTHER;

        __hipRegisterFunction(binary, &stubs[i], (char *)(uintptr_t)name, name, (unsigned)-1, NULL, NULL, NULL, NULL, NULL);
    }
}

static uint64_t upload(const void *from, size_t bytes)
{
    uint64_t d = 0;

    return hipMalloc(&d, bytes) || hipMemcpyHtoD(d, from, bytes) ? 0 : d;
}

int gpu_model_open(void)
{
    int i, rc;

    fake_cuda_api()->use_thread(true);
    fake_gptq_add(fake_cuda_api());
    rc = hipInit(0) || hipSetDevice(0) || hipModuleLoadData(&module, hip_model_code) || hipStreamCreateWithFlags(&stream, TD_CUDA_STREAM_NON_BLOCKING) ||
         hipMalloc(&a, MAX_ROWS * MAX_SIZE * 2) || hipMalloc(&c, MAX_ROWS * MAX_SIZE * 2) || hipMalloc(&dequant_w, 1024 * 1024 * 2) ||
         hipModuleGetFunction(&reconstruct, module, FAKE_RECONSTRUCT) || hipModuleGetFunction(&hgemm, module, FAKE_HGEMM);
    for (i = 0; i < 8 && !rc; i++)
        rc = hipModuleGetFunction(&functions[i], module, symbols[i]);
    return rc;
}

/* From the checkpoint's layout; v2: zero points are stored as they are; perm NULL: rows lie in
 * the order of their groups. */
int gpu_model_layer(int n, int k, int groups, int v2, const uint32_t *qweight, const uint32_t *qzeros, const uint16_t *scales, const int32_t *perm)
{
    uint32_t *shuffled = malloc((size_t)(k / 8 * n) * 4);
    struct layer *l = &layers[n_layers];

    if (n_layers == LAYERS || n > MAX_SIZE || k > MAX_SIZE || !shuffled || td_exllama_shuffle(4, k, n, qweight, perm, shuffled, NULL))
        return 1;
    *l = (struct layer){n, k, groups, v2 != 0, upload(shuffled, (size_t)(k / 8 * n) * 4), upload(qzeros, (size_t)(groups * n / 8) * 4),
                        upload(scales, (size_t)(groups * n) * 2), perm ? upload(perm, (size_t)k * 4) : 0};
    free(shuffled);
    n_layers++;
    return !l->qweight || !l->qzeros || !l->scales;
}

/* The block of parameters, as the code object lays it out. The gaps hold old bytes. */
struct block { uint64_t a, qweight, qzeros, scales, c; int m, n, k, groups; uint8_t v2, gap[7]; uint64_t perm; };

static int launch(int which, int first, int m, int block_rows)
{
    const struct layer *l = &layers[which];
    struct block p = {a + (uint64_t)(first * l->k) * 2, l->qweight, l->qzeros, l->scales, c + (uint64_t)(first * l->n) * 2, m, l->n, l->k, l->groups, l->v2,
                      {0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa}, l->perm};
    void *at[] = {&p.a, &p.qweight, &p.qzeros, &p.scales, &p.c, &p.m, &p.n, &p.k, &p.groups, &p.v2, &p.perm};
    size_t bytes = sizeof p;
    void *extra[] = {(void *)TD_HIP_PARAM_BUFFER_POINTER, &p, (void *)TD_HIP_PARAM_BUFFER_SIZE, &bytes, (void *)TD_HIP_PARAM_END};
    const unsigned x = (unsigned)(l->n + 511) / 512, y = (unsigned)((m + block_rows - 1) / block_rows), z = (unsigned)(l->k + 127) / 128;

    switch (which % 3) {
    case 0: return hipLaunchKernel(&stubs[block_rows - 1], (struct td_hip_dim){x, y, z}, (struct td_hip_dim){128, 1, 1}, at, 0, stream);
    case 1: return hipModuleLaunchKernel(functions[block_rows - 1], x, y, z, 128, 1, 1, 0, stream, at, NULL);
    default: return TD_HIP_EXT_MANGLED(functions[block_rows - 1], x * 128, y, z, 128, 1, 1, 0, stream, NULL, extra, NULL, NULL, 0);
    }
}

/* More rows than exllama's kernel computes: dequantise W, then hipblasHgemm. */
static int launch_dequantised(const struct layer *l, int m)
{
    struct { void *kernel, *stream; int mode; } handle = {hgemm, stream, 0};
    struct layer w = *l;
    uint16_t one = 0x3c00, zero = 0;
    void *at[] = {&w.qweight, &w.perm, &w.qzeros, &w.scales, &w.k, &w.n, &w.groups, &w.v2, &dequant_w};

    return (size_t)l->n * (size_t)l->k > 1024 * 1024 || hipModuleLaunchKernel(reconstruct, 1, 1, 1, 128, 1, 1, 0, stream, at, NULL) ||
           hipblasHgemm(&handle, 111, 111, l->n, m, l->k, &one, (void *)dequant_w, l->n, (void *)a, l->k, &zero, (void *)c, l->n);
}

static int launch_others(int n)
{
    int count = 4, rc = 0;
    void *at[] = {&count, &a};

    while (n--)
        rc |= hipLaunchKernel(&stubs[8], (struct td_hip_dim){1, 1, 1}, (struct td_hip_dim){32, 1, 1}, at, 0, stream);
    return rc;
}

static void fill_activations(int n)
{
    uint16_t *to = (uint16_t *)a;     /* a device address is a host address here */
    int i;

    for (i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        to[i] = (uint16_t)((seed >> 16 & 0x8000) | (0x2c00 + (seed >> 8) % 0x0c00));
    }
}

/* One step: new activations for every layer, so that every op differs. */
int gpu_model_step(int rows)
{
    int i, rc = hipSetDevice(0), eights;

    if (rows > MAX_ROWS)
        rows = MAX_ROWS;
    eights = rows / 8 * 8;
    rc |= launch_others(20);
    for (i = 0; i < n_layers && !rc; i++) {
        rc |= launch_others(3) | hipStreamSynchronize(stream);
        fill_activations(rows * layers[i].k);
        if (rows > EXLLAMA_ROWS)
            rc |= launch_dequantised(&layers[i], rows);
        else if (eights)
            rc |= launch(i, 0, eights, 8);
        if (rows <= EXLLAMA_ROWS && rows > eights)
            rc |= launch(i, eights, rows - eights, rows - eights);
    }
    return rc | hipStreamSynchronize(stream);
}
