/* beside_operators.h - operators of torch that stand beside products, as a decoder layer of vLLM calls them: for
 * lib_cuda_model.c, with TD_GPU_MODEL_BESIDE.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An address of the device is one of the host here; operators wait for the stream, then compute at once. They compute in
 * double, and round once. */
#ifndef TD_TESTS_HELPERS_BESIDE_OPERATORS_H
#define TD_TESTS_HELPERS_BESIDE_OPERATORS_H

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/f16.h"
#include "tests/helpers/fake_torch.h"

enum { BESIDE_BLOCKS = 40, BESIDE_BLOCK = 16 };  /* of the cache of keys and values */
enum { BESIDE_NORMS = 64, BESIDE_ROWS = 128, BESIDE_HIDDEN = 256, BESIDE_HEAD = 32, BESIDE_KEYS = 64, BESIDE_POSITIONS = 256 };

static struct {
    bool on;
    uint64_t norm[BESIDE_NORMS];       /* [hidden] F16 */
    int n_norms;
    uint16_t *x, *y, *residual, *key;  /* [rows, hidden] */
    uint16_t *table;                   /* [positions, head]: cosines, then sines */
    int64_t *positions;                /* [rows] */
    float *scales;                     /* [rows] */
    uint16_t *cache;                   /* [blocks, keys and values, block, keys] */
    int64_t *slots;                    /* [rows] */
    int32_t *perm;                     /* [hidden] */
    void (*wait)(void);                /* for the stream */
    void (*fill)(uint64_t to, int n);  /* with activations */
    fake_torch_call_fn *call;
} beside;

static inline struct fake_torch_tensor beside_tensor(int32_t dtype, int64_t d0, int64_t d1, void *data)
{
    return (struct fake_torch_tensor){.ndim = d1 ? 2 : 1, .sizes = {d0, d1}, .strides = {d1 ? d1 : 1, 1}, .dtype = dtype, .device = TD_TORCH_CUDA, .data = data};
}

static inline const struct fake_torch_tensor *beside_optional(td_torch_value v)
{
    return v ? (const struct fake_torch_tensor *)*(td_torch_value *)v : NULL;
}

static inline double beside_get(const struct fake_torch_tensor *t, int64_t at)
{
    return (double)td_f16_load(((const uint16_t *)t->data)[at]);
}

static inline void beside_set(struct fake_torch_tensor *t, int64_t at, double d)
{
    ((uint16_t *)t->data)[at] = td_f16_round((float)d);
}

/* ---- operators ------------------------------------------------------------------------------------------------------- */

static inline void beside_norm(struct fake_torch_tensor *out, const struct fake_torch_tensor *in, const struct fake_torch_tensor *w, double epsilon)
{
    const int64_t m = in->sizes[0], n = in->sizes[1];

    for (int64_t i = 0; i < m; i++) {
        double squares = 0, factor;

        for (int64_t j = 0; j < n; j++)
            squares += beside_get(in, i * n + j) * beside_get(in, i * n + j);
        factor = 1 / sqrt(squares / (double)n + epsilon);
        for (int64_t j = 0; j < n; j++)
            beside_set(out, i * n + j, beside_get(in, i * n + j) * factor * (w ? beside_get(w, j) : 1));
    }
}

static inline void beside_rms_norm(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    double epsilon;

    (void)n_results;
    beside.wait();
    memcpy(&epsilon, &stack[3], sizeof epsilon);
    beside_norm((void *)stack[0], (void *)stack[1], beside_optional(stack[2]), epsilon);
    memset(stack, 0, n_args * sizeof *stack);
}

static inline void beside_fused(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    struct fake_torch_tensor *in = (void *)stack[0], *residual = (void *)stack[1];
    double epsilon;

    (void)n_results;
    beside.wait();
    memcpy(&epsilon, &stack[3], sizeof epsilon);
    for (int64_t i = 0; i < in->sizes[0] * in->sizes[1]; i++)
        beside_set(residual, i, beside_get(in, i) + beside_get(residual, i));
    beside_norm(in, residual, beside_optional(stack[2]), epsilon);
    memset(stack, 0, n_args * sizeof *stack);
}

static inline void beside_silu(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    struct fake_torch_tensor *out = (void *)stack[0];
    const struct fake_torch_tensor *in = (void *)stack[1];
    const int64_t n = out->sizes[1];

    (void)n_results;
    beside.wait();
    for (int64_t e = 0; e < out->sizes[0] * n; e++) {
        const double gate = beside_get(in, e / n * 2 * n + e % n), up = beside_get(in, e / n * 2 * n + n + e % n);

        beside_set(out, e, gate / (1 + exp(-gate)) * up);
    }
    memset(stack, 0, n_args * sizeof *stack);
}

static inline void beside_turn(struct fake_torch_tensor *x, const struct fake_torch_tensor *table, int64_t head, bool neox)
{
    const int64_t rot = table->sizes[1], half = rot / 2;

    for (int64_t at = 0; at < x->sizes[0] * x->sizes[1]; at += head)
        for (int64_t j = 0; j < half; j++) {
            const int64_t line = beside.positions[at / x->sizes[1]] * rot, p = at + (neox ? j : 2 * j), q = at + (neox ? j + half : 2 * j + 1);
            const double c = beside_get(table, line + j), s = beside_get(table, line + half + j), a = beside_get(x, p), b = beside_get(x, q);

            beside_set(x, p, a * c - b * s);
            beside_set(x, q, b * c + a * s);
        }
}

static inline void beside_rotary(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    (void)n_results;
    beside.wait();
    beside_turn((void *)stack[1], (void *)stack[4], (int64_t)stack[3], stack[5] & 0xff);
    if (stack[2])
        beside_turn((void *)*(td_torch_value *)stack[2], (void *)stack[4], (int64_t)stack[3], stack[5] & 0xff);
    memset(stack, 0, n_args * sizeof *stack);
}

static inline void beside_int8(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    const struct fake_torch_tensor *out = (void *)stack[0], *in = (void *)stack[1], *scale = (void *)stack[2];
    const int64_t n = in->sizes[1];

    (void)n_results;
    beside.wait();
    for (int64_t i = 0; i < in->sizes[0]; i++) {
        double most = 0;

        for (int64_t j = 0; j < n; j++)
            most = fmax(most, fabs(beside_get(in, i * n + j)));
        ((float *)scale->data)[i] = (float)(most / 127);
        for (int64_t j = 0; j < n; j++)
            ((signed char *)out->data)[i * n + j] = (signed char)rint(beside_get(in, i * n + j) * (127 / most));
    }
    memset(stack, 0, n_args * sizeof *stack);
}

/* reshape_and_cache_flash of numbers that are stored as they are. */
static inline void beside_cache(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    const struct fake_torch_tensor *slots = (void *)stack[4];

    (void)n_results;
    beside.wait();
    for (int part = 0; part < 2; part++) {
        const struct fake_torch_tensor *x = (void *)stack[part], *cache = (void *)stack[2 + part];

        for (int64_t i = 0; i < slots->sizes[0]; i++) {
            const int64_t slot = ((const int64_t *)slots->data)[i], block = cache->sizes[1];

            if (slot >= 0)
                memcpy((uint16_t *)cache->data + slot / block * cache->strides[0] + slot % block * cache->strides[1],
                       (const uint16_t *)x->data + i * x->strides[0], BESIDE_KEYS * 2);
        }
    }
    memset(stack, 0, n_args * sizeof *stack);
}

/* permute_cols: its result lies in memory of its own. */
static inline void beside_permute(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    static struct fake_torch_tensor out;
    const struct fake_torch_tensor *a = (void *)stack[0], *perm = (void *)stack[1];

    (void)n_results;
    beside.wait();
    out = *a;
    out.data = beside.residual;
    for (int64_t e = 0; e < a->sizes[0] * a->sizes[1]; e++)
        beside_set(&out, e, beside_get(a, e / a->sizes[1] * a->sizes[1] + ((const int32_t *)perm->data)[e % a->sizes[1]]));
    memset(stack, 0, n_args * sizeof *stack);
    stack[0] = (uintptr_t)&out;
}

#define BESIDE_CACHE "reshape_and_cache_flash(Tensor key, Tensor value, Tensor! key_cache, Tensor! value_cache, Tensor slot_mapping, " \
                     "str kv_cache_dtype, Tensor k_scale, Tensor v_scale) -> ()"

static const struct { const char *schema, *name; td_torch_boxed *fn; } beside_operators[] = { /* vLLM 0.26's */
    {"rms_norm(Tensor! result, Tensor input, Tensor? weight, float epsilon) -> ()", "rms_norm", beside_rms_norm},
    {"fused_add_rms_norm(Tensor! input, Tensor! residual, Tensor? weight, float epsilon) -> ()", "fused_add_rms_norm", beside_fused},
    {"silu_and_mul(Tensor! result, Tensor input) -> ()", "silu_and_mul", beside_silu},
    {"rotary_embedding(Tensor positions, Tensor! query, Tensor!? key, int head_size, Tensor cos_sin_cache, bool is_neox, "
     "int rope_dim_offset=0, bool inverse=False) -> ()", "rotary_embedding", beside_rotary},
    {"permute_cols(Tensor A, Tensor perm) -> Tensor", "permute_cols", beside_permute},
    {"dynamic_scaled_int8_quant(Tensor! result, Tensor input, Tensor! scale, Tensor!? azp) -> ()", "dynamic_scaled_int8_quant", beside_int8},
};

/* ---- the model ------------------------------------------------------------------------------------------------------- */

/* caches, caches_cuda: of namespace _C_cache_ops */
static inline int beside_register(td_torch_library library, td_torch_library cuda, td_torch_library caches, td_torch_library caches_cuda, td_torch_def *def,
                                  td_torch_impl_version *impl)
{
    size_t i;

    beside.on = getenv("TD_GPU_MODEL_BESIDE") != NULL;
    if (beside.on && (def(caches, BESIDE_CACHE) || impl(caches_cuda, "reshape_and_cache_flash", beside_cache, 1)))
        return 1;
    for (i = 0; beside.on && i < sizeof beside_operators / sizeof *beside_operators; i++)
        if (def(library, beside_operators[i].schema) || impl(cuda, beside_operators[i].name, beside_operators[i].fn, 1))
            return 1;
    return 0;
}

/* Memory that no product uses. alloc: of the device. */
static inline int beside_open(int (*alloc)(uint64_t *, size_t))
{
    uint64_t at = 0;
    char *p;

    if (!beside.on)
        return 0;
    if (alloc(&at, 2 * BESIDE_BLOCKS * BESIDE_BLOCK * BESIDE_KEYS * 2))
        return 1;
    beside.cache = (void *)at;
    if (alloc(&at, 9 * BESIDE_ROWS * BESIDE_HIDDEN * 2))
        return 1;
    p = (char *)at;
    beside.x = (void *)p, beside.y = (void *)(p += BESIDE_ROWS * BESIDE_HIDDEN * 2), beside.residual = (void *)(p += BESIDE_ROWS * BESIDE_HIDDEN * 2);
    beside.key = (void *)(p += BESIDE_ROWS * BESIDE_HIDDEN * 2), beside.table = (void *)(p += BESIDE_ROWS * BESIDE_HIDDEN * 2);
    beside.positions = (void *)(p += BESIDE_ROWS * BESIDE_HIDDEN * 2), beside.scales = (void *)(p += BESIDE_ROWS * 8);
    beside.slots = (void *)(p += BESIDE_ROWS * 8), beside.perm = (void *)(p += BESIDE_ROWS * 8);
    for (int j = 0; j < BESIDE_HIDDEN; j++)
        beside.perm[j] = (37 * j + 11) % BESIDE_HIDDEN;
    for (int i = 0; i < BESIDE_POSITIONS; i++)
        for (int j = 0; j < BESIDE_HEAD; j++) {
            const double angle = i * pow(10000, -2.0 * (j % (BESIDE_HEAD / 2)) / BESIDE_HEAD);

            beside.table[i * BESIDE_HEAD + j] = td_f16_round((float)(j < BESIDE_HEAD / 2 ? cos(angle) : sin(angle)));
        }
    return 0;
}

static inline int beside_call_fused(int rows, int which)
{
    struct fake_torch_tensor in = beside_tensor(TD_TORCH_F16, rows, BESIDE_HIDDEN, beside.y), residual = beside_tensor(TD_TORCH_F16, rows, BESIDE_HIDDEN, beside.residual),
                             w = beside_tensor(TD_TORCH_F16, BESIDE_HIDDEN, 0, (void *)beside.norm[which]);
    const double epsilon = 1e-6;
    td_torch_value weight = (uintptr_t)&w, stack[4] = {(uintptr_t)&in, (uintptr_t)&residual, (uintptr_t)&weight, 0};

    memcpy(&stack[3], &epsilon, sizeof epsilon);
    return beside.call("_C::fused_add_rms_norm", "CUDA", stack, 4, 0);
}

/* In every other layer without keys, and in the other style. */
static inline int beside_call_rotary(int rows, bool with_key)
{
    struct fake_torch_tensor positions = beside_tensor(TD_TORCH_I64, rows, 0, beside.positions), query = beside_tensor(TD_TORCH_F16, rows, BESIDE_HIDDEN, beside.y),
                             key = beside_tensor(TD_TORCH_F16, rows, BESIDE_KEYS, beside.key), table = beside_tensor(TD_TORCH_F16, BESIDE_POSITIONS, BESIDE_HEAD, beside.table);
    td_torch_value at = (uintptr_t)&key, stack[8] = {(uintptr_t)&positions, (uintptr_t)&query, with_key ? (uintptr_t)&at : 0, BESIDE_HEAD, (uintptr_t)&table, with_key, 0, 0};

    return beside.call("_C::rotary_embedding", "CUDA", stack, 8, 0);
}

static inline int beside_call_silu(int rows)
{
    struct fake_torch_tensor out = beside_tensor(TD_TORCH_F16, rows, BESIDE_HIDDEN / 2, beside.key), in = beside_tensor(TD_TORCH_F16, rows, BESIDE_HIDDEN, beside.residual);
    td_torch_value stack[2] = {(uintptr_t)&out, (uintptr_t)&in};

    return beside.call("_C::silu_and_mul", "CUDA", stack, 2, 0);
}

static inline int beside_call_int8(int rows)
{
    struct fake_torch_tensor out = beside_tensor(TD_TORCH_I8, rows, BESIDE_HIDDEN, beside.y), in = beside_tensor(TD_TORCH_F16, rows, BESIDE_HIDDEN, beside.x),
                             scale = beside_tensor(TD_TORCH_F32, rows, 1, beside.scales);
    td_torch_value stack[4] = {(uintptr_t)&out, (uintptr_t)&in, (uintptr_t)&scale, 0};

    return beside.call("_C::dynamic_scaled_int8_quant", "CUDA", stack, 4, 0);
}

static inline int beside_call_norm(int rows, int which)
{
    struct fake_torch_tensor out = beside_tensor(TD_TORCH_F16, rows, BESIDE_HIDDEN, beside.y), in = beside_tensor(TD_TORCH_F16, rows, BESIDE_HIDDEN, beside.x),
                             w = beside_tensor(TD_TORCH_F16, BESIDE_HIDDEN, 0, (void *)beside.norm[which]);
    const double epsilon = 1e-6;
    td_torch_value weight = (uintptr_t)&w, stack[4] = {(uintptr_t)&out, (uintptr_t)&in, (uintptr_t)&weight, 0};

    memcpy(&stack[3], &epsilon, sizeof epsilon);
    return beside.call("_C::rms_norm", "CUDA", stack, 4, 0);
}

static inline int beside_call_permute(int rows)
{
    struct fake_torch_tensor a = beside_tensor(TD_TORCH_F16, rows, BESIDE_HIDDEN, beside.x), perm = beside_tensor(TD_TORCH_I32, BESIDE_HIDDEN, 0, beside.perm);
    td_torch_value stack[2] = {(uintptr_t)&a, (uintptr_t)&perm};

    return beside.call("_C::permute_cols", "CUDA", stack, 2, 1);
}

static inline struct fake_torch_tensor beside_heads(int rows, uint16_t *data, int64_t stride)
{
    return (struct fake_torch_tensor){.ndim = 3, .sizes = {rows, BESIDE_KEYS / BESIDE_HEAD, BESIDE_HEAD}, .strides = {stride, BESIDE_HEAD, 1}, .dtype = TD_TORCH_F16,
                                      .device = TD_TORCH_CUDA, .data = data};
}

static inline struct fake_torch_tensor beside_half_of_cache(int which)
{
    return (struct fake_torch_tensor){.ndim = 4, .sizes = {BESIDE_BLOCKS, BESIDE_BLOCK, BESIDE_KEYS / BESIDE_HEAD, BESIDE_HEAD},
                                      .strides = {2 * BESIDE_BLOCK * BESIDE_KEYS, BESIDE_KEYS, BESIDE_HEAD, 1}, .dtype = TD_TORCH_F16, .device = TD_TORCH_CUDA,
                                      .data = beside.cache + which * BESIDE_BLOCK * BESIDE_KEYS};
}

/* The first of several rows pads the batch; values lie behind keys in rows that are padded by one. */
static inline int beside_call_cache(int layer, int rows)
{
    const int padded = rows + 1 <= BESIDE_ROWS ? rows + 1 : rows;
    struct fake_torch_tensor key = beside_heads(padded, beside.x, BESIDE_HIDDEN), value = beside_heads(padded, beside.x + BESIDE_KEYS, BESIDE_HIDDEN),
                             keys = beside_half_of_cache(0), values = beside_half_of_cache(1), slots = beside_tensor(TD_TORCH_I64, rows, 0, beside.slots),
                             one = beside_tensor(TD_TORCH_F32, 1, 0, beside.scales);
    td_torch_value stack[8] = {(uintptr_t)&key, (uintptr_t)&value, (uintptr_t)&keys, (uintptr_t)&values, (uintptr_t)&slots, (uintptr_t)"auto", (uintptr_t)&one, (uintptr_t)&one};

    for (int i = 0; i < rows; i++)
        beside.slots[i] = i || rows == 1 ? (5 * i + 3 * layer) % (BESIDE_BLOCKS * BESIDE_BLOCK) : -1;
    return beside.call("_C_cache_ops::reshape_and_cache_flash", "CUDA", stack, 8, 0);
}

/* What a decoder layer computes before its products. */
static inline int beside_step(int layer, int rows)
{
    if (!beside.on || 2 * layer >= beside.n_norms)
        return 0;
    beside.wait();
    beside.fill((uintptr_t)beside.x, rows * BESIDE_HIDDEN);
    beside.fill((uintptr_t)beside.key, rows * BESIDE_HIDDEN);
    if (!layer)
        beside.fill((uintptr_t)beside.residual, rows * BESIDE_HIDDEN);
    for (int i = 0; i < rows; i++)
        beside.positions[i] = (7 * i + 3 * layer) % BESIDE_POSITIONS;
    return beside_call_norm(rows, 2 * layer) | beside_call_rotary(rows, layer % 2 == 0) | beside_call_fused(rows, 2 * layer + 1) | beside_call_silu(rows) |
           beside_call_int8(rows) | beside_call_cache(layer, rows) | beside_call_permute(rows);
}

#endif
