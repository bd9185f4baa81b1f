/* lib_cuda_model.c - the GPU side of the fake server (tests/fakes/fake_server.py --gpu): the GPTQ
 * layers of a checkpoint on the fake CUDA driver, launched as vLLM launches them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It opens libcuda.so.1 by name, as vLLM's libraries do, so LD_LIBRARY_PATH chooses the driver.
 * cuInit loads the library of CUDA_INJECTION64_PATH: the tap. lib_hip_model.c is the same for HIP.
 *
 *   gpu_model_open()           start the driver; call it once, first
 *   gpu_model_layer(...)       add a layer, from the checkpoint's tensors
 *   gpu_model_norm(n, weight)  add the weight of a norm, [n] F16; they come in the order of their use
 *   gpu_model_capture(rows)    capture a CUDA graph of a step of so many rows
 *   gpu_model_overflow(layer)  in the next step this layer's input is too large for float16
 *   gpu_model_step(rows)       one step through all layers
 * All return 0, or not 0 on an error.
 *
 *   TD_GPU_MODEL_OPERATORS  layers are repacked and multiplied by operators of torch, as Machete's,
 *                           which launch the same kernels inside; lib_fake_torch.so must be loaded.
 *                           gptq_gemm: by that operator, with the weights as vLLM has them for it;
 *                           scaled: by FP8 and INT8 (scaled_operators.h); awq: by AWQ's (awq_operators.h);
 *                           mine: by those of lib_own_operators.so, which must be loaded too
 *   TD_GPU_MODEL_MOVED    after the third step the repacked weights are copied elsewhere, as by a server that
 *                         wakes from its sleep
 *   TD_GPU_MODEL_CUDART   graphs are captured and launched through libcudart.so.13, as torch does
 *   TD_GPU_MODEL_BESIDE   with operators of torch: also those that stand beside products (beside_operators.h)
 *   TD_GPU_MODEL_DEVICE   number of the device, for a rank of a tensor-parallel server
 *   TD_GPU_MODEL_RESULTS  a hash of the outputs of each step goes to this file (step_results.h)
 *   TD_GPU_MODEL_UNREAD   each step also launches a GEMM that no adapter can read */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "model/exllama_layout.h"
#include "tests/helpers/awq_operators.h"
#include "tests/helpers/fake_cuda/fake_api.h"
#include "tests/helpers/fake_gptq.h"
#include "tests/helpers/beside_operators.h"
#include "tests/helpers/fake_torch.h"
#include "tests/helpers/scaled_operators.h"
#include "tests/helpers/step_results.h"

#define MEMBER(name, member, args) int (*member) args;
static struct { TD_CUDA_NEEDED(MEMBER) TD_CUDA_OPTIONAL(MEMBER) FAKE_CUDA_MORE(MEMBER) } cu;

/* As in vLLM's libraries the symbol is undefined here, so the first definition in the process is
 * called: the tap's, if it is preloaded. */
int cublasHgemm(void *handle, int trans_a, int trans_b, int m, int n, int k, const uint16_t *alpha, const void *w, int lda, const void *b, int ldb,
                const uint16_t *beta, void *to, int ldc);

enum { MAX_GRAPHS = 8, GRAPH_ROWS = 64 };
enum { LAYERS_OF_A_DECODER = 7 };
enum { LAYERS = 64, MAX_ROWS = 128, EXLLAMA_ROWS = 50, MAX_SIZE = 4096 };
static struct layer { int n, k, groups; uint8_t v2; uint64_t qweight, qzeros, scales, perm; } layers[LAYERS];
static int n_layers;
static uint64_t a, c, dequant_w, symmetric_zeros;
static bool are_mine;                  /* layers are multiplied by mine::w4a16_gemm and mine::linear */
static fake_torch_call_fn *torch_call; /* not NULL: layers are multiplied by operators of torch */
static bool as_gptq_gemm;              /* which are gptq_gemm, not Machete's */
static bool as_scaled;                 /* which are FP8 and INT8 */
static struct scaled_layer scaled_layers[LAYERS];
static bool as_awq;                    /* which are AWQ's */
static struct awq_layer awq_layers[LAYERS];
static void *context, *module, *stream;
static unsigned seed;
static struct { int rows; void *exec; } graphs[MAX_GRAPHS]; /* smallest first */
static int n_graphs;
static uint64_t graph_a;               /* inputs of graphs: [GRAPH_ROWS, MAX_SIZE] for each layer */
static int overflows = -1;             /* see gpu_model_overflow(); -1: none */

int gpu_model_open(void);
int gpu_model_layer(int n, int k, int groups, int v2, const uint32_t *qweight, const uint32_t *qzeros, const uint16_t *scales, const int32_t *perm);
int gpu_model_norm(int n, const uint16_t *weight);
int gpu_model_capture(int rows);
int gpu_model_step(int rows);
void gpu_model_overflow(int layer);

static uint64_t upload(const void *from, size_t bytes)
{
    uint64_t d = 0;

    /* a small copy returns before it is done, and steps run on a stream that does not wait for it */
    return cu.mem_alloc(&d, bytes) || cu.copy_to_device(d, from, bytes) || cu.stream_synchronize(NULL) ? 0 : d;
}

static int register_operators(void);

int gpu_model_open(void)
{
    void *h = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    const struct fake_cuda_api *(*api)(void);
    const char *device = getenv("TD_GPU_MODEL_DEVICE"); /* set for a rank */

    if (!h)
        return 1;
#define FIND(name, member, args) *(void **)&cu.member = dlsym(h, #name);
    TD_CUDA_NEEDED(FIND) TD_CUDA_OPTIONAL(FIND) FAKE_CUDA_MORE(FIND)
    *(void **)&api = dlsym(h, "fake_cuda_api");
    if (!api)
        return 2;
    api()->use_thread(true);
    fake_gptq_add(api());
    return cu.init(0) || cu.primary_retain(&context, device ? atoi(device) : 0) || cu.ctx_set_current(context) || cu.module_load(&module, FAKE_GPTQ_IMAGE) ||
           cu.stream_create(&stream, TD_CUDA_STREAM_NON_BLOCKING) || cu.mem_alloc(&a, MAX_ROWS * MAX_SIZE * 2) || cu.mem_alloc(&dequant_w, 1024 * 1024 * 2) || cu.mem_alloc(&c, MAX_ROWS * MAX_SIZE * 2) ||
           (getenv("TD_GPU_MODEL_OPERATORS") && register_operators());
}

static uint64_t prepack(int n, int k, const uint32_t *qweight);

/* From the checkpoint's layout; v2: zero points are stored as they are; perm NULL: rows lie in
 * the order of their groups. */
int gpu_model_layer(int n, int k, int groups, int v2, const uint32_t *qweight, const uint32_t *qzeros, const uint16_t *scales, const int32_t *perm)
{
    uint32_t *shuffled = malloc((size_t)(k / 8 * n) * 4);
    struct layer *l = &layers[n_layers];

    if (n_layers == LAYERS || n > MAX_SIZE || k > MAX_SIZE || !shuffled || td_exllama_shuffle(4, k, n, qweight, perm, shuffled, NULL))
        return 1;
    if (as_scaled) {
        free(shuffled);
        l->n = n, l->k = k;
        scaled_layers[n_layers] = scaled_layer_new(n_layers, n, k, upload);
        return !scaled_layers[n_layers++].w;
    }
    if (as_awq) {
        free(shuffled);
        l->n = n, l->k = k;
        awq_layers[n_layers] = awq_layer_new(n, k, groups, qweight, qzeros, scales, upload);
        return !awq_layers[n_layers++].scales;
    }
    if (are_mine) {
        *l = (struct layer){n, k, groups, 0, upload(qweight, (size_t)(k / 8 * n) * 4), upload(qzeros, (size_t)(groups * n / 8) * 4),
                            upload(scales, (size_t)(groups * n) * 2), 0};
        free(shuffled);
        n_layers++;
        return !l->qweight || !l->qzeros || !l->scales;
    }
    if (torch_call && !as_gptq_gemm) {
        uint64_t packed = prepack(n, k, qweight);

        *l = (struct layer){n, k, groups, 0, packed, symmetric_zeros, upload(scales, (size_t)(groups * n) * 2), 0};
        free(shuffled);
        n_layers++;
        return !l->qweight || !l->scales;
    }
    *l = (struct layer){n, k, groups, v2 != 0, upload(shuffled, (size_t)(k / 8 * n) * 4), upload(qzeros, (size_t)(groups * n / 8) * 4),
                        upload(scales, (size_t)(groups * n) * 2), perm ? upload(perm, (size_t)k * 4) : 0};
    free(shuffled);
    n_layers++;
    return !l->qweight || !l->qzeros || !l->scales;
}

static void *kernel_of(const char *symbol)
{
    void *f = NULL;

    cu.module_get_function(&f, module, symbol);
    return f;
}

static int launch(const struct layer *l, uint64_t in, int first, int m, int block_rows)
{
#define SYMBOL(r) FAKE_GPTQ_4BIT(r),
    static const char *const symbols[] = {FAKE_GPTQ_KERNELS(SYMBOL)};
    uint64_t from = in + (uint64_t)(first * l->k) * 2, to = c + (uint64_t)(first * l->n) * 2;
    struct layer w = *l;
    void *at[] = {&from, &w.qweight, &w.qzeros, &w.scales, &to, &m, &w.n, &w.k, &w.groups, &w.v2, &w.perm};

    return cu.launch(kernel_of(symbols[block_rows - 1]), (unsigned)(l->n + 511) / 512, (unsigned)((m + block_rows - 1) / block_rows), (unsigned)(l->k + 127) / 128, 128, 1, 1, 0,
                     stream, at, NULL);
}

/* More rows than exllama's kernel computes: dequantise W, then cublasHgemm. */
static int launch_dequantised(const struct layer *l, uint64_t in, int m)
{
    struct { void *kernel, *stream; int mode; } handle = {kernel_of(FAKE_HGEMM), stream, 0};
    struct layer w = *l;
    uint16_t one = 0x3c00, zero = 0;
    void *at[] = {&w.qweight, &w.perm, &w.qzeros, &w.scales, &w.k, &w.n, &w.groups, &w.v2, &dequant_w};

    return (size_t)l->n * (size_t)l->k > 1024 * 1024 || cu.launch(kernel_of(FAKE_RECONSTRUCT), 1, 1, 1, 128, 1, 1, 0, stream, at, NULL) ||
           cublasHgemm(&handle, 0, 0, l->n, m, l->k, &one, (void *)dequant_w, l->n, (void *)in, l->k, &zero, (void *)c, l->n);
}

int gpu_model_norm(int n, const uint16_t *weight)
{
    if (n != BESIDE_HIDDEN || beside.n_norms == BESIDE_NORMS)
        return 1;
    return !(beside.norm[beside.n_norms++] = upload(weight, (size_t)n * 2));
}

static void launch_others(int n)
{
    int count = 4;
    void *at[] = {&count, &a}, *f = kernel_of(FAKE_OTHER);

    while (n--)
        cu.launch(f, 1, 1, 1, 32, 1, 1, 0, stream, at, NULL);
}

/* Launch a product of no rows, by a kernel that no adapter of the tap knows. */
static void launch_unreadable(void)
{
    uint64_t none = 0;
    int size = 0;
    void *at[] = {&none, &none, &none, &size, &size, &size};

    cu.launch(kernel_of(FAKE_HGEMM), 1, 1, 1, 32, 1, 1, 0, stream, at, NULL);
}

static int launch_rows(const struct layer *l, uint64_t in, int rows)
{
    int eights = rows / 8 * 8, rc = 0;

    if (eights)
        rc = launch(l, in, 0, eights, 8);
    return rows > eights ? rc | launch(l, in, eights, rows - eights, rows - eights) : rc;
}

static void fill_activations(uint64_t in, int n)
{
    uint16_t *to = (uint16_t *)in; /* a device address is a host address here */
    int i;

    for (i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        to[i] = (uint16_t)((seed >> 16 & 0x8000) | (0x2c00 + (seed >> 8) % 0x0c00));
    }
}

/* The functions for graphs: the driver's, or those of libcudart that a library of torch's would reach. */
static struct {
    int (*begin)(void *stream, int mode), (*end)(void *stream, void **graph), (*instantiate)(void **exec, void *graph, unsigned long long flags), (*destroy)(void *graph),
        (*launch)(void *exec, void *stream);
} with_graphs;

static int find_graph_functions(void)
{
    if (!getenv("TD_GPU_MODEL_CUDART")) {
        with_graphs.begin = cu.stream_begin_capture, with_graphs.end = cu.stream_end_capture, with_graphs.instantiate = cu.graph_instantiate;
        with_graphs.destroy = cu.graph_destroy, with_graphs.launch = cu.graph_launch;
        return 0;
    }
    if (!dlopen("libcudart.so.13", RTLD_NOW | RTLD_GLOBAL))
        return 1;
    *(void **)&with_graphs.begin = dlsym(RTLD_DEFAULT, "cudaStreamBeginCapture"), *(void **)&with_graphs.end = dlsym(RTLD_DEFAULT, "cudaStreamEndCapture");
    *(void **)&with_graphs.instantiate = dlsym(RTLD_DEFAULT, "cudaGraphInstantiateWithFlags"), *(void **)&with_graphs.destroy = dlsym(RTLD_DEFAULT, "cudaGraphDestroy");
    *(void **)&with_graphs.launch = dlsym(RTLD_DEFAULT, "cudaGraphLaunch");
    return !with_graphs.begin || !with_graphs.end || !with_graphs.instantiate || !with_graphs.destroy || !with_graphs.launch;
}

static void on_stream(void *now)
{
    void **current = dlsym(RTLD_DEFAULT, "fake_torch_stream");

    stream = now;
    if (torch_call && current)
        *current = now;
}

static int multiply(const struct layer *l, uint64_t from, int rows);
static int multiply_by_gptq_gemm(const struct layer *l, uint64_t from, int rows);

static uint64_t graph_in(int i)
{
    return graph_a + (uint64_t)i * GRAPH_ROWS * MAX_SIZE * 2;
}

/* Capture a graph on a stream of its own, in global mode, as vLLM does at its start for each batch
 * size that it pads to. Call it with the smallest size first. */
int gpu_model_capture(int rows)
{
    void *served = stream, *graph, *capturing;
    int i, rc = cu.ctx_set_current(context) || find_graph_functions();

    if (rc || rows > GRAPH_ROWS || n_graphs == MAX_GRAPHS || (!graph_a && cu.mem_alloc(&graph_a, (size_t)LAYERS * GRAPH_ROWS * MAX_SIZE * 2)) ||
        cu.stream_create(&capturing, TD_CUDA_STREAM_NON_BLOCKING) || with_graphs.begin(capturing, 0))
        return 1;
    on_stream(capturing);
    for (i = 0; i < n_layers && !rc; i++) {
        launch_others(3);
        rc = as_gptq_gemm ? multiply_by_gptq_gemm(&layers[i], graph_in(i), rows)
             : torch_call ? multiply(&layers[i], graph_in(i), rows)
                          : launch_rows(&layers[i], graph_in(i), rows);
    }
    rc = rc || with_graphs.end(stream, &graph) || with_graphs.instantiate(&graphs[n_graphs].exec, graph, 0) || with_graphs.destroy(graph);
    cu.stream_destroy(stream);
    on_stream(served);
    graphs[n_graphs++].rows = rows;
    return rc;
}

static void add_result(int i, int rows)
{
    if (i >= 0)
        step_results_add((const void *)c, (size_t)(rows * layers[i].n) * 2);
}

/* Run a step in the smallest graph with enough rows; the rows beyond `rows` hold old values. -1:
 * no graph. */
static int step_in_graph(int rows)
{
    int g = 0, i, rc;

    while (g < n_graphs && graphs[g].rows < rows)
        g++;
    if (g == n_graphs)
        return -1;
    launch_others(20);
    for (i = 0; i < n_layers; i++)
        fill_activations(graph_in(i), rows * layers[i].k);
    rc = with_graphs.launch(graphs[g].exec, stream) | cu.stream_synchronize(stream);
    add_result(n_layers - 1, rows);
    step_results_end(rows);
    return rc;
}

/* Give layer i a finite input whose signs are those of the first column of W, so that the sum of
 * the products exceeds float16. The layers after it get NaN, as they would in a model. */
static void make_overflow(int i, int rows)
{
    uint16_t *to = (uint16_t *)a;
    const struct layer *l = &layers[i];
    int j;

    for (j = 0; j < rows * l->k; j++)
        to[j] = i > overflows ? 0x7e00 : fake_gptq_element((const uint32_t *)l->qweight, 4, l->n, j % l->k, 0) < 8 ? 0xfbff : 0x7bff;
}

void gpu_model_overflow(int layer)
{
    overflows = layer;
}

/* ---- as operators of torch ----------------------------------------------------------------------------------------------- */

#define U4B8 1125899907892224          /* vLLM's id of the type */

static struct fake_torch_tensor *new_matrix(int64_t rows, int64_t cols, int32_t dtype, uint64_t data)
{
    struct fake_torch_tensor *t = calloc(1, sizeof *t);

    *t = (struct fake_torch_tensor){.ndim = 2, .sizes = {rows, cols}, .strides = {cols, 1}, .dtype = dtype, .device = TD_TORCH_CUDA, .data = (void *)data};
    return t;
}

/* _C::machete_prepack_B: what it makes of a weight is exllama's layout here, which nobody expects of it. */
static void prepack_operator(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    struct fake_torch_tensor *b = (struct fake_torch_tensor *)stack[0], *out = new_matrix(b->sizes[0], b->sizes[1], b->dtype, 0);
    const size_t words = (size_t)(b->sizes[0] * b->sizes[1]);
    uint32_t *dense = malloc(words * 4), *shuffled = malloc(words * 4);
    int64_t r, col;

    (void)n_args, (void)n_results;
    for (r = 0; r < b->sizes[0]; r++)
        for (col = 0; col < b->sizes[1]; col++)
            dense[r * b->sizes[1] + col] = ((const uint32_t *)b->data)[r * b->strides[0] + col * b->strides[1]];
    td_exllama_shuffle(4, b->sizes[0] * 8, b->sizes[1], dense, NULL, shuffled, NULL);
    out->data = (void *)upload(shuffled, words * 4);
    out->strides[0] = 1, out->strides[1] = b->sizes[0];
    free(dense);
    free(shuffled);
    memset(stack, 0, n_args * sizeof *stack);
    stack[0] = (uintptr_t)out;
}

static uint64_t prepack(int n, int k, const uint32_t *qweight)
{
    uint32_t *by_columns = malloc((size_t)(k / 8 * n) * 4);
    struct fake_torch_tensor *b = new_matrix(k / 8, n, TD_TORCH_I32, 0), *out;
    td_torch_value stack[4] = {(uintptr_t)b, TD_TORCH_F16, U4B8, 0};
    uint64_t data;
    int r, col;

    for (r = 0; r < k / 8; r++)
        for (col = 0; col < n; col++)
            by_columns[col * (k / 8) + r] = qweight[r * n + col];
    data = upload(by_columns, (size_t)(k / 8 * n) * 4);
    cu.stream_synchronize(NULL);       /* the operator reads it on another stream */
    b->data = (void *)data;
    b->strides[0] = 1, b->strides[1] = k / 8;
    torch_call("_C::machete_prepack_B", "CUDA", stack, 4, 1);
    memset((void *)data, 0xee, (size_t)(k / 8 * n) * 4); /* the memory has another use now */
    out = (struct fake_torch_tensor *)stack[0];
    data = (uintptr_t)out->data;
    free(by_columns);
    free(b);
    free(out);
    return data;
}

/* _C::machete_mm */
static void mm_operator(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    const struct fake_torch_tensor *in = (struct fake_torch_tensor *)stack[0], *b = (struct fake_torch_tensor *)stack[1],
                                   *scales = (struct fake_torch_tensor *)*(td_torch_value *)stack[4];
    const int rows = (int)in->sizes[0];
    const struct layer l = {(int)b->sizes[1], (int)in->sizes[1], (int)scales->sizes[0], 0, (uintptr_t)b->data, symmetric_zeros, (uintptr_t)scales->data, 0};

    (void)n_results;
    if (rows > EXLLAMA_ROWS)
        launch_dequantised(&l, (uintptr_t)in->data, rows);
    else
        launch_rows(&l, (uintptr_t)in->data, rows);
    memset(stack, 0, n_args * sizeof *stack);
    stack[0] = (uintptr_t)new_matrix(rows, l.n, TD_TORCH_F16, c);
}

/* _C::gptq_gemm */
static void gptq_operator(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    const struct fake_torch_tensor *in = (struct fake_torch_tensor *)stack[0], *w = (struct fake_torch_tensor *)stack[1], *zeros = (struct fake_torch_tensor *)stack[2],
                                   *scales = (struct fake_torch_tensor *)stack[3], *perm = (struct fake_torch_tensor *)stack[4];
    const int rows = (int)in->sizes[0];
    const struct layer l = {(int)w->sizes[1], (int)in->sizes[1], (int)zeros->sizes[0], stack[6] != 0, (uintptr_t)w->data, (uintptr_t)zeros->data, (uintptr_t)scales->data,
                            (uintptr_t)perm->data};

    (void)n_results;
    if (rows > EXLLAMA_ROWS)
        launch_dequantised(&l, (uintptr_t)in->data, rows);
    else
        launch_rows(&l, (uintptr_t)in->data, rows);
    memset(stack, 0, n_args * sizeof *stack);
    stack[0] = (uintptr_t)new_matrix(rows, l.n, TD_TORCH_F16, c);
}

static int multiply_by_gptq_gemm(const struct layer *l, uint64_t from, int rows)
{
    struct fake_torch_tensor *t[] = {new_matrix(rows, l->k, TD_TORCH_F16, from), new_matrix(l->k / 8, l->n, TD_TORCH_I32, l->qweight),
                                     new_matrix(l->groups, l->n / 8, TD_TORCH_I32, l->qzeros), new_matrix(l->groups, l->n, TD_TORCH_F16, l->scales),
                                     new_matrix(l->perm ? l->k : 0, 1, TD_TORCH_I32, l->perm)};
    td_torch_value stack[8] = {(uintptr_t)t[0], (uintptr_t)t[1], (uintptr_t)t[2], (uintptr_t)t[3], (uintptr_t)t[4], 1, l->v2, 4};
    int i, rc;

    t[4]->ndim = 1;
    rc = torch_call("_C::gptq_gemm", "CUDA", stack, 8, 1);
    free((void *)stack[0]);
    for (i = 0; i < 5; i++)
        free(t[i]);
    return rc;
}

static int multiply(const struct layer *l, uint64_t from, int rows)
{
    struct fake_torch_tensor *in = new_matrix(rows, l->k, TD_TORCH_F16, from), *b = new_matrix(l->k / 8, l->n, TD_TORCH_I32, l->qweight),
                             *s = new_matrix(l->groups, l->n, TD_TORCH_F16, l->scales);
    td_torch_value scales = (uintptr_t)s, group = (uint64_t)(l->k / l->groups);
    td_torch_value stack[10] = {(uintptr_t)in, (uintptr_t)b, U4B8, 0, (uintptr_t)&scales, 0, (uintptr_t)&group, 0, 0, 0};
    int rc;

    b->strides[0] = 1, b->strides[1] = l->k / 8;
    rc = torch_call("_C::machete_mm", "CUDA", stack, 10, 1);
    free((void *)stack[0]);
    free(in);
    free(b);
    free(s);
    return rc;
}

static void stack_of(struct fake_torch_tensor *t, int64_t d1, int64_t d2, int32_t dtype, uint64_t data)
{
    *t = (struct fake_torch_tensor){.ndim = 3, .sizes = {2, d1, d2}, .strides = {d1 * d2, d2, 1}, .dtype = dtype, .device = TD_TORCH_CUDA, .data = (void *)data};
}

/* The halves of a layer's rows as two experts, to which each token goes: to one first, or to the other. A float for each choice. */
static int multiply_experts(const struct layer *l, int rows, bool mul)
{
    static uint64_t memory, q, scales, zeros; /* memory: ids, experts of blocks, their number, floats */
    enum { BLOCK = 4, MOST = 2 * MAX_ROWS + 4 * BLOCK };
    const int groups = l->groups / 2, k = groups * (l->k / l->groups);
    struct fake_torch_tensor *x = new_matrix(rows, k, TD_TORCH_F16, a), *y = new_matrix(2 * rows, l->n, TD_TORCH_F16, c), w, s, z;
    int32_t *ids, *owner, *count;
    int i, e, rc;

    if (!memory && cu.mem_alloc(&memory, 3 * MOST * 4 + 4))
        return 1;
    if (!q && (!(q = upload((void *)l->qweight, (size_t)(l->k / 8 * l->n) * 4)) || !(scales = upload((void *)l->scales, (size_t)(l->groups * l->n) * 2)) ||
               !(zeros = upload((void *)l->qzeros, (size_t)(l->groups * l->n / 8) * 4))))
        return 1;
    ids = (void *)memory, owner = ids + MOST, count = owner + MOST;
    for (e = 0, *count = 0; e < 2; e++) {
        for (i = 0; i < rows || *count % BLOCK; i++, ++*count) {
            ids[*count] = i < rows ? 2 * i + ((i + e) & 1) : 2 * rows;
            owner[*count / BLOCK] = e;
        }
    }
    for (i = 0; i < 2 * rows; i++)
        ((float *)(count + 1))[i] = 0.25f + (float)(i % 5) / 8;
    stack_of(&w, k / 8, l->n, TD_TORCH_I32, q);
    stack_of(&s, groups, l->n, TD_TORCH_F16, scales);
    stack_of(&z, groups, l->n / 8, TD_TORCH_I32, zeros);
    struct fake_torch_tensor *of_ids = new_matrix(1, MOST, TD_TORCH_I32, (uintptr_t)ids), *of_owner = new_matrix(1, MOST, TD_TORCH_I32, (uintptr_t)owner),
                             *of_count = new_matrix(1, 1, TD_TORCH_I32, (uintptr_t)count), *tw = new_matrix(rows, 2, TD_TORCH_F32, (uintptr_t)(count + 1));
    td_torch_value at = (uintptr_t)tw, stack[12] = {(uintptr_t)x, (uintptr_t)&w, (uintptr_t)&s, (uintptr_t)&z, (uintptr_t)of_ids, (uintptr_t)of_owner,
                                                    (uintptr_t)of_count, (uintptr_t)&at, 2, BLOCK, mul, (uintptr_t)y};

    rc = torch_call("mine::experts_gemm", "CUDA", stack, 12, 0);
    free(x), free(y), free(of_ids), free(of_owner), free(of_count), free(tw);
    return rc;
}

/* A layer; and, beside the first one, a product by a plain matrix, for which its scales serve, and two with experts. */
static int multiply_mine(const struct layer *l, int rows)
{
    double eps = 0.5;
    struct fake_torch_tensor *x = new_matrix(rows, l->k, TD_TORCH_F16, a), *w = new_matrix(l->k / 8, l->n, TD_TORCH_I32, l->qweight),
                             *s = new_matrix(l->groups, l->n, TD_TORCH_F16, l->scales),
                             *z = new_matrix(l->groups, l->n / 8, TD_TORCH_I32, l->qzeros), *y = new_matrix(rows, l->n, TD_TORCH_F16, c);
    td_torch_value stack[9] = {(uintptr_t)x, (uintptr_t)w, (uintptr_t)s, (uintptr_t)z, (uint64_t)(l->k / l->groups), 1, 0, 0, (uintptr_t)y};
    int rc;

    memcpy(&stack[6], &eps, sizeof eps);
    rc = torch_call("mine::w4a16_gemm", "CUDA", stack, 9, 0);
    if (l == layers) {
        struct fake_torch_tensor *matrix = new_matrix(l->groups, l->n, TD_TORCH_F16, l->scales), *in = new_matrix(rows, l->groups, TD_TORCH_F16, a);
        td_torch_value plain[4] = {(uintptr_t)in, (uintptr_t)matrix, (uintptr_t)y, 0};

        rc |= torch_call("mine::linear", "CUDA", plain, 4, 0) | multiply_experts(l, rows, false) | multiply_experts(l, rows, true);
        free(matrix);
        free(in);
    }
    free(x);
    free(w);
    free(s);
    free(z);
    free(y);
    return rc;
}

/* The same product by a kernel that nobody knows either. The operators compute on the host: wait for it. */
static int launch_mine(const struct layer *l, int rows)
{
    uint64_t in = a, w = l->scales, to = c;
    int m = rows, n = l->n, k = l->groups;
    void *at[] = {&in, &w, &to, &m, &n, &k};

    return cu.launch(kernel_of(FAKE_HGEMM), 1, 1, 1, 32, 1, 1, 0, stream, at, NULL) || cu.stream_synchronize(stream);
}

static void wait_for_stream(void)
{
    cu.stream_synchronize(stream);
}

static int open_beside(void)
{
    beside.wait = wait_for_stream, beside.fill = fill_activations, beside.call = torch_call;
    return beside_open(cu.mem_alloc);
}

static void launch_another(void)
{
    launch_others(1);
}

/* As in a compiled server, another kernel runs between the two calls of every second product. */
static int multiply_awq(int i, int rows)
{
    struct { void *kernel, *stream; int mode; } handle = {kernel_of(FAKE_HGEMM), stream, 0};

    awq_between = i % 2 ? launch_another : NULL;
    return awq_multiply(&awq_layers[i], rows, (uint16_t *)a, (uint16_t *)c, (uint16_t *)dequant_w, &handle, torch_call);
}

static int register_operators(void)
{
    static const char *const schemas[] = { /* vLLM 0.26's */
        ("machete_mm(Tensor A, Tensor B, int b_type, ScalarType? out_type, Tensor? group_scales, Tensor? group_zeros, int? group_size, "
         "Tensor? channel_scales, Tensor? token_scales, str? schedule) -> Tensor"),
        "machete_prepack_B(Tensor B, ScalarType a_type, int b_type, ScalarType? group_scales_type) -> Tensor",
        "gptq_gemm(Tensor a, Tensor b_q_weight, Tensor b_gptq_qzeros, Tensor b_gptq_scales, Tensor b_g_idx, bool use_exllama, bool use_v2_format, int bit) -> Tensor"};
    td_torch_init *init = (td_torch_init *)dlsym(RTLD_DEFAULT, "aoti_torch_library_init_fragment");
    td_torch_init_impl *init_impl = (td_torch_init_impl *)dlsym(RTLD_DEFAULT, "aoti_torch_library_init_impl");
    td_torch_def *def = (td_torch_def *)dlsym(RTLD_DEFAULT, "aoti_torch_library_def");
    td_torch_impl_version *impl = (td_torch_impl_version *)dlsym(RTLD_DEFAULT, "torch_library_impl");
    void **current = dlsym(RTLD_DEFAULT, "fake_torch_stream"), *zeros = malloc(MAX_SIZE * MAX_SIZE / 8);
    td_torch_library library, cuda, caches, caches_cuda;

    as_gptq_gemm = !strcmp(getenv("TD_GPU_MODEL_OPERATORS"), "gptq_gemm");
    as_scaled = !strcmp(getenv("TD_GPU_MODEL_OPERATORS"), "scaled");
    as_awq = !strcmp(getenv("TD_GPU_MODEL_OPERATORS"), "awq");
    *(void **)&torch_call = dlsym(RTLD_DEFAULT, "fake_torch_call");
    if (!torch_call || !init || !init_impl || !def || !impl || !current || !zeros)
        return 3;
    *current = stream;
    are_mine = !strcmp(getenv("TD_GPU_MODEL_OPERATORS"), "mine");
    if (are_mine)
        return free(zeros), 0;
    symmetric_zeros = upload(memset(zeros, 0x77, MAX_SIZE * MAX_SIZE / 8), MAX_SIZE * MAX_SIZE / 8);
    free(zeros);
    return init("_C", __FILE__, __LINE__, &library) || def(library, SCALED_MM) || def(library, SCALED_MM_AZP) || def(library, SCALED_MOE_MM) || def(library, schemas[0]) || def(library, schemas[1]) || def(library, schemas[2]) ||
           init_impl("_C", "CUDA", __FILE__, __LINE__, &cuda) || impl(cuda, "machete_mm", mm_operator, 1) ||
           impl(cuda, "machete_prepack_B", prepack_operator, 1) || impl(cuda, "gptq_gemm", gptq_operator, 1) ||
           init("_C_cache_ops", __FILE__, __LINE__, &caches) || init_impl("_C_cache_ops", "CUDA", __FILE__, __LINE__, &caches_cuda) ||
           beside_register(library, cuda, caches, caches_cuda, def, impl) || open_beside() || impl(cuda, "cutlass_scaled_mm", scaled_operator, 1) || impl(cuda, "cutlass_scaled_mm_azp", scaled_operator, 1) ||
           impl(cuda, "cutlass_moe_mm", scaled_moe_operator, 1) || awq_register(library, cuda, def, impl);
}

/* ---- steps --------------------------------------------------------------------------------------------------------------- */

/* The server's weights, where they were, are gone. */
static int move_weights(void)
{
    int i;

    for (i = 0; i < n_layers; i++) {
        struct layer *l = &layers[i];
        const size_t bytes = (size_t)(l->k / 8 * l->n) * 4;
        const uint64_t to = upload((const void *)l->qweight, bytes);

        if (!to)
            return 1;
        memset((void *)l->qweight, 0xee, bytes);
        l->qweight = to;
    }
    return 0;
}

/* One step: new activations for every layer, so that every op differs. */
int gpu_model_step(int rows)
{
    static int steps;
    int i, rc = cu.ctx_set_current(context), graph;

    if (getenv("TD_GPU_MODEL_MOVED") && steps++ == 3)
        rc |= cu.stream_synchronize(stream) | move_weights();
    if (rows > MAX_ROWS)
        rows = MAX_ROWS;
    step_results_begin(rows, &seed);
    if (!rc && (graph = step_in_graph(rows)) >= 0)
        return graph;
    launch_others(20);
    if (getenv("TD_GPU_MODEL_UNREAD"))
        launch_unreadable();
    for (i = 0; i < n_layers && !rc; i++) {
        launch_others(3);
        rc = i % LAYERS_OF_A_DECODER ? 0 : beside_step(i / LAYERS_OF_A_DECODER, rows);
        rc |= cu.stream_synchronize(stream);
        add_result(i - 1, rows);
        fill_activations(a, rows * layers[i].k);
        if (overflows >= 0 && i >= overflows)
            make_overflow(i, rows);
        if (as_scaled)
            rc |= scaled_multiply(&scaled_layers[i], rows, (unsigned char *)a, (void *)c, torch_call);
        else if (as_awq)
            rc |= multiply_awq(i, rows);
        else if (are_mine)
            rc |= multiply_mine(&layers[i], rows) || (!i && launch_mine(&layers[i], rows));
        else if (torch_call)
            rc |= as_gptq_gemm ? multiply_by_gptq_gemm(&layers[i], a, rows) : multiply(&layers[i], a, rows);
        else
            rc |= rows > EXLLAMA_ROWS ? launch_dequantised(&layers[i], a, rows) : launch_rows(&layers[i], a, rows);
    }
    overflows = -1;
    rc |= cu.stream_synchronize(stream);
    add_result(n_layers - 1, rows);
    step_results_end(rows);
    return rc;
}
