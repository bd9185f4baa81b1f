/* lib_hip_model.c - the GPU side of the fake server (tests/fakes/fake_server.py --gpu) on the fake
 * HIP runtime. lib_cuda_model.c is the same for CUDA and documents the functions.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It is linked to libamdhip64.so.6, as vLLM's libraries are, and registers its kernels as code from
 * hipcc does (fake_hip/server.c). The layers take turns at three forms of launch: <<<>>>
 * (hipLaunchKernel of a stub), hipModuleLaunchKernel with kernelParams, and
 * hipExtModuleLaunchKernel with one packed block, as rocBLAS launches. The code objects are real
 * (tests/unit/data/tap_like.cu); fake_gptq.h computes their results.
 *
 *   TD_GPU_MODEL_OPERATORS  gptq_gemm: layers are multiplied by that operator of torch, as in vLLM's build
 *                           for ROCm, which launches the same kernels inside; lib_fake_torch.so must be loaded.
 *                           mine: by mine::w4a16_gemm of lib_own_operators.so, which must be loaded too, and each
 *                           step launches a kernel of nobody's */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/abi/hip_abi.h"
#include "model/exllama_layout.h"
#include "tests/helpers/fake_gptq.h"
#include "tests/helpers/fake_torch.h"
#include "tests/helpers/step_results.h"

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
static fake_torch_call_fn *torch_call; /* not NULL: layers are multiplied by operators of torch */
static bool are_mine;                  /* which are an engineer's own */

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

    return hipMalloc(&d, bytes) || hipMemcpyHtoD(d, from, bytes) || hipStreamSynchronize(NULL) ? 0 : d; /* as in lib_cuda_model.c */
}

static int register_operators(void);

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
    return rc || (getenv("TD_GPU_MODEL_OPERATORS") && register_operators());
}

/* From the checkpoint's layout; v2: zero points are stored as they are; perm NULL: rows lie in
 * the order of their groups. */
int gpu_model_layer(int n, int k, int groups, int v2, const uint32_t *qweight, const uint32_t *qzeros, const uint16_t *scales, const int32_t *perm)
{
    uint32_t *shuffled = malloc((size_t)(k / 8 * n) * 4);
    struct layer *l = &layers[n_layers];

    if (n_layers == LAYERS || n > MAX_SIZE || k > MAX_SIZE || !shuffled || td_exllama_shuffle(4, k, n, qweight, perm, shuffled, NULL))
        return 1;
    *l = (struct layer){n, k, groups, v2 != 0, upload(are_mine ? qweight : shuffled, (size_t)(k / 8 * n) * 4), upload(qzeros, (size_t)(groups * n / 8) * 4),
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

static int multiply(int i, int rows)
{
    const int eights = rows / 8 * 8;
    int rc = 0;

    if (rows > EXLLAMA_ROWS)
        return launch_dequantised(&layers[i], rows);
    if (eights)
        rc = launch(i, 0, eights, 8);
    return rows > eights ? rc | launch(i, eights, rows - eights, rows - eights) : rc;
}

/* ---- as operators of torch, whose build for ROCm calls the device CUDA as well -------------------------------------------- */

static struct fake_torch_tensor matrix(int64_t rows, int64_t cols, int32_t dtype, uint64_t data)
{
    return (struct fake_torch_tensor){.ndim = 2, .sizes = {rows, cols}, .strides = {cols, 1}, .dtype = dtype, .device = TD_TORCH_CUDA, .data = (void *)data};
}

/* _C::gptq_gemm */
static void gptq_operator(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    static struct fake_torch_tensor result;
    const struct fake_torch_tensor *in = (void *)stack[0], *w = (void *)stack[1];
    int i = 0;

    (void)n_results;
    while (layers[i].qweight != (uintptr_t)w->data)
        i++;
    multiply(i, (int)in->sizes[0]);
    result = matrix(in->sizes[0], layers[i].n, TD_TORCH_F16, c);
    memset(stack, 0, n_args * sizeof *stack);
    stack[0] = (uintptr_t)&result;
}

static int multiply_by_operator(const struct layer *l, int rows)
{
    struct fake_torch_tensor in = matrix(rows, l->k, TD_TORCH_F16, a), w = matrix(l->k / 8, l->n, TD_TORCH_I32, l->qweight),
                             z = matrix(l->groups, l->n / 8, TD_TORCH_I32, l->qzeros), s = matrix(l->groups, l->n, TD_TORCH_F16, l->scales),
                             perm = matrix(l->perm ? l->k : 0, 1, TD_TORCH_I32, l->perm), out = matrix(rows, l->n, TD_TORCH_F16, c);
    td_torch_value gptq[8] = {(uintptr_t)&in, (uintptr_t)&w, (uintptr_t)&z, (uintptr_t)&s, (uintptr_t)&perm, 1, l->v2, 4},
                   mine[9] = {(uintptr_t)&in, (uintptr_t)&w, (uintptr_t)&s, (uintptr_t)&z, (uint64_t)(l->k / l->groups), 1, 0, 0, (uintptr_t)&out};
    const double eps = 0.5;

    perm.ndim = 1;
    memcpy(&mine[6], &eps, sizeof eps);
    return are_mine ? torch_call("mine::w4a16_gemm", "CUDA", mine, 9, 0) : torch_call("_C::gptq_gemm", "CUDA", gptq, 8, 1);
}

/* A product by a kernel that nobody knows; the scales of a layer serve as its matrix. */
static int launch_mine(const struct layer *l, int rows)
{
    uint64_t in = a, w = l->scales, to = c;
    int m = rows, n = l->n, k = l->groups;
    void *at[] = {&in, &w, &to, &m, &n, &k};

    return hipModuleLaunchKernel(hgemm, 1, 1, 1, 32, 1, 1, 0, stream, at, NULL) | hipStreamSynchronize(stream);
}

static int register_operators(void)
{
    td_torch_init *init = (td_torch_init *)dlsym(RTLD_DEFAULT, "aoti_torch_library_init_fragment");
    td_torch_init_impl *init_impl = (td_torch_init_impl *)dlsym(RTLD_DEFAULT, "aoti_torch_library_init_impl");
    td_torch_def *def = (td_torch_def *)dlsym(RTLD_DEFAULT, "aoti_torch_library_def");
    td_torch_impl_version *impl = (td_torch_impl_version *)dlsym(RTLD_DEFAULT, "torch_library_impl");
    void **current = dlsym(RTLD_DEFAULT, "fake_torch_stream");
    td_torch_library library, cuda;

    *(void **)&torch_call = dlsym(RTLD_DEFAULT, "fake_torch_call");
    if (!torch_call || !init || !init_impl || !def || !impl || !current)
        return 1;
    *current = stream;
    are_mine = !strcmp(getenv("TD_GPU_MODEL_OPERATORS"), "mine");
    return !are_mine &&
           (init("_C", __FILE__, __LINE__, &library) || /* vLLM 0.26 */
            def(library, "gptq_gemm(Tensor a, Tensor b_q_weight, Tensor b_gptq_qzeros, Tensor b_gptq_scales, Tensor b_g_idx, bool use_exllama, bool use_v2_format, int bit) -> Tensor") ||
            init_impl("_C", "CUDA", __FILE__, __LINE__, &cuda) || impl(cuda, "gptq_gemm", gptq_operator, 1));
}

/* ---- steps ---------------------------------------------------------------------------------------------------------------- */

static void add_result(int i, int rows)
{
    if (i >= 0)
        step_results_add((const void *)c, (size_t)(rows * layers[i].n) * 2);
}

/* One step: new activations for every layer, so that every op differs. */
int gpu_model_step(int rows)
{
    int i, rc = hipSetDevice(0);

    if (rows > MAX_ROWS)
        rows = MAX_ROWS;
    step_results_begin(rows, &seed);
    rc |= launch_others(20);
    for (i = 0; i < n_layers && !rc; i++) {
        rc |= launch_others(3) | hipStreamSynchronize(stream);
        add_result(i - 1, rows);
        fill_activations(rows * layers[i].k);
        rc |= torch_call ? multiply_by_operator(&layers[i], rows) : multiply(i, rows);
        if (are_mine && !i)
            rc |= launch_mine(&layers[i], rows);
    }
    rc |= hipStreamSynchronize(stream);
    add_result(n_layers - 1, rows);
    step_results_end(rows);
    return rc;
}
