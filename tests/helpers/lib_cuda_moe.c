/* lib_cuda_moe.c - as lib_cuda_model.c, the GPU side of the fake server, with a mixture of experts: the
 * checkpoint is one of random_gptq.py --experts N, and its experts are multiplied by an operator of
 * torch, as vLLM's moe_wna16_marlin_gemm or moe_wna16_gemm. lib_fake_torch.so must be loaded.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The server gives layers in the order of their names: of each layer of the model w1, w2 and w3 of all
 * experts, then four of attention, which are left out. The operator launches nothing: a device address
 * is a host address here.
 *
 *   TD_GPU_MODEL_EXPERTS  how many experts a layer has; each token goes to two
 *   TD_GPU_MODEL_WNA16    any text: the operator and the layout are those of moe_wna16_gemm */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "common/f16.h"
#include "model/marlin_layout.h"
#include "tests/helpers/fake_cuda/fake_api.h"
#include "tests/helpers/fake_cuda/fake_cuda.h"
#include "tests/helpers/fake_product.h"
#include "tests/helpers/fake_torch.h"

#define MEMBER(name, member, args) int (*member) args;
static struct { TD_CUDA_NEEDED(MEMBER) TD_CUDA_OPTIONAL(MEMBER) FAKE_CUDA_MORE(MEMBER) } cu;

enum { LAYERS = 8, EXPERTS = 8, TOP_K = 2, BLOCK = 8, MAX_ROWS = 64, ATTENTION = 4 };
#define U4B8 1125899907892224          /* vLLM's id of the type */

/* A linear layer of the checkpoint, or gate and up side by side. */
struct weight { int n, k, groups; uint32_t *qweight; uint16_t *scales; };
/* All experts' of a layer, and as the server has them on the GPU. */
struct experts { struct weight w[EXPERTS]; uint64_t qweight, scales; };

static struct experts layers[LAYERS][2]; /* w13, w2 */
static struct weight gate;
static int n_experts, given;
static bool wna16;
static uint64_t a, c, sorted_ids, expert_ids, padded, weights;
static void *context, *stream;
static fake_torch_call_fn *torch_call;
static unsigned seed = 1;

int gpu_model_open(void);
int gpu_model_layer(int n, int k, int groups, int v2, const uint32_t *qweight, const uint32_t *qzeros, const uint16_t *scales, const int32_t *perm);
int gpu_model_capture(int rows);
int gpu_model_step(int rows);

static unsigned draw(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

/* ---- the operator ---------------------------------------------------------------------------------------------------- */

static const struct weight *experts_at(uint64_t qweight)
{
    int i;

    for (i = 0; i < 2 * LAYERS; i++)
        if (layers[i / 2][i % 2].qweight == qweight)
            return layers[i / 2][i % 2].w;
    return NULL;
}

/* W, whose dequantised weights are rounded */
static void decode(const void *of, int64_t k, int64_t n, float *to)
{
    const struct weight *w = of;

    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < n; j++) {
            const int q = (int)(w->qweight[i / 8 * n + j] >> i % 8 * 4 & 15) - 8;

            fake_set(to, k, i, j, td_f16_load(td_f16_round((float)q * td_f16_load(w->scales[i / (k / w->groups) * n + j]))));
        }
}

/* Sums [m, n] of rows of halves by W. */
static double *product(const struct weight *w, int64_t m, const uint16_t *in)
{
    const struct fake_part parts[] = {{&w->groups, sizeof w->groups}, {w->qweight, (size_t)(w->n * w->k) / 2}, {w->scales, (size_t)(w->groups * w->n) * 2}, {NULL, 0}};
    double *rows = malloc((size_t)(m * w->k) * sizeof *rows + 1), *sums;

    if (!rows)
        abort();
    for (int64_t i = 0; i < m * w->k; i++)
        rows[i] = (double)td_f16_load(in[i]);
    sums = fake_product(m, w->n, w->k, rows, decode, w, parts);
    free(rows);
    return sums;
}

static struct fake_torch_tensor *tensor_of(td_torch_value v)
{
    return (struct fake_torch_tensor *)v;
}

/* The routing of a call; topk NULL: rows are not multiplied. */
struct routing { const int32_t *ids, *experts, *count; const float *topk; int block, top_k; bool round_topk; };

static void multiply_slots(const struct fake_torch_tensor *in, const struct weight *w, const struct routing *r, uint16_t *out)
{
    const int64_t slots = in->sizes[0] * r->top_k, n = w[0].n;
    int64_t i, j, e;

    cu.stream_synchronize(stream);
    for (e = 0; e < n_experts; e++) {
        double *sums = product(&w[e], in->sizes[0], in->data); /* of all rows, whether they go to this expert or not */

        for (i = 0; i < *r->count; i++)
            for (j = 0; r->ids[i] < slots && r->experts[i / r->block] == e && j < n; j++) {
                const float topk = r->topk ? r->topk[r->ids[i]] : 1;
                const double factor = (double)(r->round_topk ? td_f16_load(td_f16_round(topk)) : topk);

                out[r->ids[i] * n + j] = td_f16_round((float)(sums[r->ids[i] / r->top_k * n + j] * factor));
            }
        free(sums);
    }
}

static void return_tensor(td_torch_value *stack, uint64_t n_args, struct fake_torch_tensor *out)
{
    memset(stack, 0, n_args * sizeof *stack);
    stack[0] = (uintptr_t)out;
}

/* _moe_C::moe_wna16_marlin_gemm; the places of its arguments are those of the schema below. */
static void marlin_operator(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    struct fake_torch_tensor *out = tensor_of(*(td_torch_value *)stack[1]);
    const struct routing r = {tensor_of(stack[11])->data, tensor_of(stack[12])->data, tensor_of(stack[13])->data,
                              stack[17] & 1 ? tensor_of(stack[14])->data : NULL, (int)stack[15], (int)stack[16], true};

    (void)n_results;
    multiply_slots(tensor_of(stack[0]), experts_at((uintptr_t)tensor_of(stack[2])->data), &r, out->data);
    return_tensor(stack, n_args, out);
}

/* _moe_C::moe_wna16_gemm */
static void wna16_operator(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    struct fake_torch_tensor *out = tensor_of(stack[1]);
    const struct routing r = {tensor_of(stack[6])->data, tensor_of(stack[7])->data, tensor_of(stack[8])->data,
                              stack[5] ? tensor_of(*(td_torch_value *)stack[5])->data : NULL, (int)stack[10], (int)stack[9], false};

    (void)n_results;
    multiply_slots(tensor_of(stack[0]), experts_at((uintptr_t)tensor_of(stack[2])->data), &r, out->data);
    return_tensor(stack, n_args, out);
}

static int register_operators(void)
{
    static const char marlin[] = /* vLLM 0.26 */
        "moe_wna16_marlin_gemm(Tensor! a, Tensor? c_or_none,Tensor! b_q_weight, Tensor? b_bias_or_none,Tensor! b_scales, Tensor? a_scales, Tensor? "
        "global_scale, Tensor? b_zeros_or_none,Tensor? g_idx_or_none, Tensor? perm_or_none, Tensor! workspace,Tensor sorted_token_ids,"
        "Tensor! expert_ids, Tensor! num_tokens_past_padded,Tensor! topk_weights, int moe_block_size, int top_k, bool mul_topk_weights, int b_type_id,"
        "int size_m, int size_n, int size_k,bool is_full_k, bool use_atomic_add,bool use_fp32_reduce, bool is_zp_float,"
        "int thread_k, int thread_n, int blocks_per_sm) -> Tensor";
    static const char bytes[] = /* vLLM 0.26 */
        "moe_wna16_gemm(Tensor input, Tensor! output, Tensor b_qweight, Tensor b_scales, Tensor? b_qzeros, Tensor? topk_weights, Tensor sorted_token_ids, "
        "Tensor expert_ids, Tensor num_tokens_post_pad, int top_k, int BLOCK_SIZE_M, int BLOCK_SIZE_N, int BLOCK_SIZE_K, int bit) -> Tensor";
    td_torch_init *init = (td_torch_init *)dlsym(RTLD_DEFAULT, "aoti_torch_library_init_fragment");
    td_torch_init_impl *init_impl = (td_torch_init_impl *)dlsym(RTLD_DEFAULT, "aoti_torch_library_init_impl");
    td_torch_def *def = (td_torch_def *)dlsym(RTLD_DEFAULT, "aoti_torch_library_def");
    td_torch_impl_version *impl = (td_torch_impl_version *)dlsym(RTLD_DEFAULT, "torch_library_impl");
    void **current = dlsym(RTLD_DEFAULT, "fake_torch_stream");
    td_torch_library library, cuda;

    *(void **)&torch_call = dlsym(RTLD_DEFAULT, "fake_torch_call");
    if (!torch_call || !init || !init_impl || !def || !impl || !current)
        return 3;
    *current = stream;
    return init("_moe_C", __FILE__, __LINE__, &library) || def(library, marlin) || def(library, bytes) ||
           init_impl("_moe_C", "CUDA", __FILE__, __LINE__, &cuda) || impl(cuda, "moe_wna16_marlin_gemm", marlin_operator, 1) ||
           impl(cuda, "moe_wna16_gemm", wna16_operator, 1);
}

/* ---- the model ------------------------------------------------------------------------------------------------------- */

int gpu_model_open(void)
{
    void *h = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    const struct fake_cuda_api *(*api)(void);
    const char *experts = getenv("TD_GPU_MODEL_EXPERTS");

    n_experts = experts ? atoi(experts) : 0;
    wna16 = getenv("TD_GPU_MODEL_WNA16") != NULL;
    if (!h || n_experts < TOP_K || n_experts > EXPERTS)
        return 1;
#define FIND(name, member, args) *(void **)&cu.member = dlsym(h, #name);
    TD_CUDA_NEEDED(FIND) TD_CUDA_OPTIONAL(FIND) FAKE_CUDA_MORE(FIND)
    *(void **)&api = dlsym(h, "fake_cuda_api");
    if (!api)
        return 2;
    api()->use_thread(true);
    return cu.init(0) || cu.primary_retain(&context, 0) || cu.ctx_set_current(context) || cu.stream_create(&stream, TD_CUDA_STREAM_NON_BLOCKING) ||
           cu.mem_alloc(&a, 1 << 20) || cu.mem_alloc(&c, 1 << 20) || cu.mem_alloc(&sorted_ids, 1 << 16) || cu.mem_alloc(&expert_ids, 1 << 16) ||
           cu.mem_alloc(&padded, 256) || cu.mem_alloc(&weights, 1 << 16) || register_operators();
}

/* [left | right], column after column; right NULL: left alone. */
static struct weight side_by_side(const struct weight *left, const struct weight *right)
{
    const int n = left->n + (right ? right->n : 0);
    struct weight w = {n, left->k, left->groups, malloc((size_t)(left->k / 8 * n) * 4), malloc((size_t)(left->groups * n) * 2)};
    int r;

    for (r = 0; r < w.k / 8; r++) {
        memcpy(w.qweight + r * n, left->qweight + r * left->n, (size_t)left->n * 4);
        if (right)
            memcpy(w.qweight + r * n + left->n, right->qweight + r * right->n, (size_t)right->n * 4);
    }
    for (r = 0; r < w.groups; r++) {
        memcpy(w.scales + r * n, left->scales + r * left->n, (size_t)left->n * 2);
        if (right)
            memcpy(w.scales + r * n + left->n, right->scales + r * right->n, (size_t)right->n * 2);
    }
    return w;
}

/* Output after output, as vLLM's moe_wna16.py loads a GPTQ checkpoint. */
static void put_in_bytes(const struct weight *w, uint32_t *q, uint16_t *scales)
{
    int j, r;

    for (j = 0; j < w->n; j++) {
        for (r = 0; r < w->k / 8; r++)
            q[j * (w->k / 8) + r] = w->qweight[r * w->n + j];
        for (r = 0; r < w->groups; r++)
            scales[j * w->groups + r] = w->scales[r * w->n + j];
    }
}

/* Repack expert e into the larger tensors of the server. */
static int put_expert(struct experts *x, int e)
{
    const struct weight *w = &x->w[e];
    const size_t words = (size_t)(w->k / 8 * w->n), halves = (size_t)(w->groups * w->n);

    if (!x->qweight && (cu.mem_alloc(&x->qweight, words * 4 * (size_t)n_experts) || cu.mem_alloc(&x->scales, halves * 2 * (size_t)n_experts)))
        return 1;
    if (wna16) {
        put_in_bytes(w, (uint32_t *)x->qweight + (size_t)e * words, (uint16_t *)x->scales + (size_t)e * halves);
        return 0;
    }
    return td_marlin_repack(4, w->k, w->n, w->qweight, NULL, (uint32_t *)x->qweight + (size_t)e * words, NULL) ||
           td_marlin_permute_scales(w->groups, w->n, w->scales, (uint16_t *)x->scales + (size_t)e * halves, NULL);
}

int gpu_model_layer(int n, int k, int groups, int v2, const uint32_t *qweight, const uint32_t *qzeros, const uint16_t *scales, const int32_t *perm)
{
    const int each = 3 * n_experts + ATTENTION, layer = given / each, place = given % each, e = place / 3;
    struct weight w = {n, k, groups, (uint32_t *)(uintptr_t)qweight, (uint16_t *)(uintptr_t)scales};

    (void)v2, (void)qzeros;
    given++;
    if (layer == LAYERS || perm)
        return 1;
    if (place >= 3 * n_experts)
        return 0;
    if (place % 3 == 0) {
        gate = side_by_side(&w, NULL);
        return 0;
    }
    layers[layer][place % 3 == 1].w[e] = place % 3 == 1 ? side_by_side(&w, NULL) : side_by_side(&gate, &w);
    return put_expert(&layers[layer][place % 3 == 1], e);
}

int gpu_model_capture(int rows)
{
    return rows;
}

/* Two experts for each token, and the blocks of moe_align_block_size. */
static void route(int tokens)
{
    int32_t *ids = (int32_t *)sorted_ids, *experts = (int32_t *)expert_ids;
    unsigned char choice[MAX_ROWS * TOP_K];
    int s, e, n = 0, b = 0;

    for (s = 0; s < tokens * TOP_K; s++) {
        choice[s] = (unsigned char)(draw() % (unsigned)n_experts);
        if (s % TOP_K && choice[s] == choice[s - 1])
            choice[s] = (unsigned char)((choice[s] + 1) % n_experts);
        ((float *)weights)[s] = (float)(draw() % 1000) / 1000;
    }
    for (e = 0; e < n_experts; e++) {
        for (s = 0; s < tokens * TOP_K; s++)
            if (choice[s] == e)
                ids[n++] = s;
        while (n % BLOCK)
            ids[n++] = tokens * TOP_K;
        while (b < n / BLOCK)
            experts[b++] = e;
    }
    *(int32_t *)padded = n;
}

static struct fake_torch_tensor on_gpu(int32_t dtype, int ndim, int64_t d0, int64_t d1, int64_t d2, uint64_t data)
{
    struct fake_torch_tensor t = {.ndim = ndim, .sizes = {d0, d1, d2}, .dtype = dtype, .device = TD_TORCH_CUDA, .data = (void *)data};
    int64_t n = 1;
    int i;

    for (i = ndim - 1; i >= 0; n *= t.sizes[i--])
        t.strides[i] = n;
    return t;
}

/* What all operators are given. */
struct call { struct fake_torch_tensor in, out, q, s, ids, experts, count, topk; };

static int call_marlin(struct call *t, int top_k, int times_weights)
{
    struct fake_torch_tensor none = on_gpu(TD_TORCH_I32, 2, n_experts, 0, 0, 0), space = on_gpu(TD_TORCH_I32, 1, 64, 0, 0, padded);
    td_torch_value out_at = (uintptr_t)&t->out, none_at = (uintptr_t)&none;
    td_torch_value stack[29] = {[0] = (uintptr_t)&t->in, [1] = (uintptr_t)&out_at, [2] = (uintptr_t)&t->q, [4] = (uintptr_t)&t->s,
                                [8] = (uintptr_t)&none_at, [9] = (uintptr_t)&none_at, [10] = (uintptr_t)&space, [11] = (uintptr_t)&t->ids,
                                [12] = (uintptr_t)&t->experts, [13] = (uintptr_t)&t->count, [14] = (uintptr_t)&t->topk, [15] = BLOCK,
                                [16] = (uint64_t)top_k, [17] = 0x5500 | (uint64_t)times_weights, [18] = U4B8, [22] = 1, [24] = 1, [25] = 0x5500};

    return torch_call("_moe_C::moe_wna16_marlin_gemm", "CUDA", stack, 29, 1);
}

static int call_wna16(struct call *t, int top_k, int times_weights)
{
    td_torch_value topk_at = (uintptr_t)&t->topk;
    td_torch_value stack[14] = {(uintptr_t)&t->in, (uintptr_t)&t->out, (uintptr_t)&t->q, (uintptr_t)&t->s, 0, times_weights ? (uintptr_t)&topk_at : 0,
                                (uintptr_t)&t->ids, (uintptr_t)&t->experts, (uintptr_t)&t->count, (uint64_t)top_k, BLOCK, 128, 128, 4};

    return torch_call("_moe_C::moe_wna16_gemm", "CUDA", stack, 14, 1);
}

static int multiply(const struct experts *x, int tokens, int rows, int top_k, int times_weights)
{
    const struct weight *w = &x->w[0];
    const int64_t room = tokens * TOP_K + n_experts * (BLOCK - 1);
    struct call t = {on_gpu(TD_TORCH_F16, 2, rows, w->k, 0, a),
                     wna16 ? on_gpu(TD_TORCH_F16, 3, tokens, TOP_K, w->n, c) : on_gpu(TD_TORCH_F16, 2, rows * top_k, w->n, 0, c),
                     wna16 ? on_gpu(TD_TORCH_U8, 3, n_experts, w->n, w->k / 2, x->qweight) : on_gpu(TD_TORCH_I32, 3, n_experts, w->k / 16, w->n * 2, x->qweight),
                     wna16 ? on_gpu(TD_TORCH_F16, 3, n_experts, w->n, w->groups, x->scales) : on_gpu(TD_TORCH_F16, 3, n_experts, w->groups, w->n, x->scales),
                     on_gpu(TD_TORCH_I32, 1, room, 0, 0, sorted_ids), on_gpu(TD_TORCH_I32, 1, (room + BLOCK - 1) / BLOCK, 0, 0, expert_ids),
                     on_gpu(TD_TORCH_I32, 1, 1, 0, 0, padded), on_gpu(TD_TORCH_F32, 2, tokens, TOP_K, 0, weights)};
    int i;

    for (i = 0; i < rows * w->k; i++)
        ((uint16_t *)a)[i] = (uint16_t)((draw() & 1) << 15 | (0x2c00 + draw() % 0x0c00));
    return wna16 ? call_wna16(&t, top_k, times_weights) : call_marlin(&t, top_k, times_weights);
}

/* One step: another routing for every layer, another A for every product. */
int gpu_model_step(int rows)
{
    const int n_layers = given / (3 * n_experts + ATTENTION);
    int i, rc = cu.ctx_set_current(context);

    if (rows > MAX_ROWS)
        rows = MAX_ROWS;
    for (i = 0; i < n_layers && !rc; i++) {
        rc = cu.stream_synchronize(stream);
        route(rows);
        rc |= multiply(&layers[i][0], rows, rows, TOP_K, 0) | cu.stream_synchronize(stream);
        rc |= multiply(&layers[i][1], rows, rows * TOP_K, 1, 1);
    }
    return rc | cu.stream_synchronize(stream);
}
