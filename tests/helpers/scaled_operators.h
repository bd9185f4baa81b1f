/* scaled_operators.h - products of 8-bit numbers by operators of torch, as vLLM's linears in FP8 and INT8 have them:
 * for lib_cuda_model.c, whose layers they stand for.
 * SPDX-License-Identifier: Apache-2.0
 *
 * W of a layer is drawn at random; its form is the layer's number modulo 5: FP8 with scales for tokens and the tensor,
 * FP8 with scales for blocks of 128, INT8 with scales for tokens and channels, the same with zero points, FP8 with
 * experts. An address of the device is one of the host here; operators compute at once. */
#ifndef TD_TESTS_HELPERS_SCALED_OPERATORS_H
#define TD_TESTS_HELPERS_SCALED_OPERATORS_H

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helpers/fake_product.h"
#include "tests/helpers/fake_torch.h"

#define SCALED_MM "cutlass_scaled_mm(Tensor! out, Tensor a, Tensor b, Tensor a_scales, Tensor b_scales, Tensor? bias) -> ()" /* vLLM 0.26 */
#define SCALED_MM_AZP "cutlass_scaled_mm_azp(Tensor! out, Tensor a, Tensor b, Tensor a_scales, Tensor b_scales, Tensor azp_adj, Tensor? azp, Tensor? bias) -> ()"
#define SCALED_MOE_MM "cutlass_moe_mm(Tensor! out_tensors, Tensor a_tensors, Tensor b_tensors, Tensor a_scales, Tensor b_scales, Tensor expert_offsets, " \
                      "Tensor problem_sizes, Tensor a_strides, Tensor b_strides, Tensor c_strides, bool per_act_token, bool per_out_ch) -> ()"

enum scaled_form { SCALED_TOKEN, SCALED_BLOCK, SCALED_INT8, SCALED_AZP, SCALED_MOE, SCALED_FORMS };
enum { SCALED_EXPERTS = 3 };
struct scaled_layer { int n, k; enum scaled_form form; unsigned char *w; float *w_scales; int32_t *azp_adj; };

static inline unsigned scaled_random(void)
{
    static unsigned seed = 5;

    return (seed = seed * 1664525u + 1013904223u) >> 8;
}

static inline void scaled_numbers(enum scaled_form form, unsigned char *to, size_t n)
{
    while (n--)
        to[n] = (unsigned char)(form < SCALED_INT8 || form == SCALED_MOE ? (scaled_random() & 0x80) | scaled_random() % 0x58 : scaled_random());
}

static inline void scaled_scales(float *to, size_t n)
{
    while (n--)
        to[n] = (float)(1 + scaled_random() % 1000) / 65536;
}

static inline float scaled_value(int32_t dtype, unsigned char b)
{
    const float mag = b >> 3 & 15 ? ldexpf((float)(8 + (b & 7)), (b >> 3 & 15) - 10) : ldexpf((float)(b & 7), -9);

    return dtype == TD_TORCH_I8 ? (float)(signed char)b : b & 0x80 ? -mag : mag;
}

static inline int64_t scaled_count(const struct fake_torch_tensor *t)
{
    return t->sizes[0] * t->sizes[1];
}

/* One scale, or one for each line. */
static inline double scaled_line(const struct fake_torch_tensor *s, int64_t line)
{
    return (double)((const float *)s->data)[scaled_count(s) == 1 ? 0 : line];
}

static inline double scaled_block(const struct fake_torch_tensor *s, int64_t i, int64_t j)
{
    return (double)((const float *)s->data)[i * s->strides[0] + j * s->strides[1]];
}

static inline uint16_t scaled_bf16(double d)
{
    const float f = (float)d;
    uint32_t u;

    memcpy(&u, &f, 4);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

struct scaled_weight { int32_t dtype; const unsigned char *w; int64_t stride; };

static inline void scaled_table(int32_t dtype, float *of)
{
    for (int i = 0; i < 256; i++)
        of[i] = scaled_value(dtype, (unsigned char)i);
}

static inline void scaled_decode(const void *of, int64_t k, int64_t n, float *to)
{
    const struct scaled_weight *w = of;
    float table[256];

    scaled_table(w->dtype, table);
    for (int64_t j = 0; j < n; j++)
        for (int64_t r = 0; r < k; r++)
            fake_set(to, k, r, j, table[w->w[j * w->stride + r]]);
}

/* Sums [m, n] of rows at a with columns at w, each `stride` apart, over k. */
static inline double *scaled_product(int32_t dtype, int64_t m, int64_t n, int64_t k, const unsigned char *a, const unsigned char *w, int64_t stride)
{
    const struct scaled_weight all = {dtype, w, stride};
    const struct fake_part parts[] = {{&all.dtype, sizeof all.dtype}, {w, (size_t)((n - 1) * stride + k)}, {NULL, 0}};
    double *rows = malloc((size_t)(m * k) * sizeof *rows + 1), *sums;
    float table[256];

    if (!rows)
        abort();
    scaled_table(dtype, table);
    for (int64_t i = 0; i < m; i++)
        for (int64_t r = 0; r < k; r++)
            rows[i * k + r] = (double)table[a[i * stride + r]];
    sums = fake_product(m, n, k, rows, scaled_decode, &all, parts);
    free(rows);
    return sums;
}

/* Both operators: the one with zero points has two arguments more. */
static inline void scaled_operator(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    const struct fake_torch_tensor *out = (void *)stack[0], *a = (void *)stack[1], *b = (void *)stack[2], *sa = (void *)stack[3], *sb = (void *)stack[4],
                                   *adj = n_args == 8 ? (void *)stack[5] : NULL, *azp = n_args == 8 ? (void *)*(td_torch_value *)stack[6] : NULL;
    const int64_t m = a->sizes[0], k = a->sizes[1], n = b->sizes[1];
    const bool by_line = (scaled_count(sa) == 1 || scaled_count(sa) == m) && (scaled_count(sb) == 1 || scaled_count(sb) == n);
    double *sums = calloc((size_t)(m * n), sizeof *sums);
    int64_t i, j, l;

    (void)n_results;
    for (l = 0; l < k; l += by_line ? k : 128) {
        const int64_t some = by_line || k - l < 128 ? k - l : 128;
        double *part = scaled_product(a->dtype, m, n, some, (const unsigned char *)a->data + l, (const unsigned char *)b->data + l, k);

        for (i = 0; i < m; i++)
            for (j = 0; j < n; j++)
                sums[i * n + j] += by_line ? part[i * n + j] : part[i * n + j] * scaled_block(sa, i, l / 128) * scaled_block(sb, l / 128, j / 128);
        free(part);
    }
    for (i = 0; i < m; i++)
        for (j = 0; j < n; j++) {
            const double sum = sums[i * n + j] - (adj ? (double)((const int32_t *)azp->data)[i] * ((const int32_t *)adj->data)[j] : 0);

            ((uint16_t *)out->data)[i * n + j] = scaled_bf16(sum * (by_line ? scaled_line(sa, i) * scaled_line(sb, j) : 1));
        }
    free(sums);
    memset(stack, 0, n_args * sizeof *stack);
}

/* cutlass_moe_mm, with scales for tokens and channels; triples of problem_sizes are transposed, as for few rows. */
static inline void scaled_moe_operator(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    const struct fake_torch_tensor *out = (void *)stack[0], *a = (void *)stack[1], *b = (void *)stack[2];
    const float *sa = ((struct fake_torch_tensor *)stack[3])->data, *sb = ((struct fake_torch_tensor *)stack[4])->data;
    const int64_t *first = ((struct fake_torch_tensor *)stack[5])->data, n = b->sizes[1], k = b->sizes[2];
    const int32_t *sizes = ((struct fake_torch_tensor *)stack[6])->data;
    int64_t e, i, j;

    (void)n_results;
    for (e = 0; e < b->sizes[0]; e++) {
        const int64_t m = sizes[3 * e + 1];
        double *sums = scaled_product(a->dtype, m, n, k, (const unsigned char *)a->data + first[e] * k, (const unsigned char *)b->data + e * n * k, k);

        for (i = 0; i < m; i++)
            for (j = 0; j < n; j++)
                ((uint16_t *)out->data)[(first[e] + i) * n + j] = scaled_bf16(sums[i * n + j] * (double)sa[first[e] + i] * (double)sb[e * n + j]);
        free(sums);
    }
    memset(stack, 0, n_args * sizeof *stack);
}

static inline struct scaled_layer scaled_layer_new(int number, int n, int k, uint64_t (*upload)(const void *from, size_t bytes))
{
    const enum scaled_form form = (enum scaled_form)(number % SCALED_FORMS);
    const size_t all = (size_t)n * (form == SCALED_MOE ? SCALED_EXPERTS : 1);
    struct scaled_layer l = {n, k, form, malloc(all * (size_t)k), malloc(all * 4), calloc((size_t)n, 4)};
    int i, j;

    scaled_numbers(l.form, l.w, all * (size_t)k);
    scaled_scales(l.w_scales, all); /* enough for blocks too */
    for (i = 0; i < n; i++)
        for (j = 0; j < k; j++)
            l.azp_adj[i] += (signed char)l.w[(size_t)i * (size_t)k + (size_t)j];
    l.w = (void *)upload(l.w, all * (size_t)k);
    l.w_scales = (void *)upload(l.w_scales, all * 4);
    l.azp_adj = (void *)upload(l.azp_adj, (size_t)n * 4);
    return l;
}

static inline struct fake_torch_tensor scaled_tensor(int32_t dtype, int64_t d0, int64_t d1, int64_t s0, int64_t s1, void *data)
{
    return (struct fake_torch_tensor){.ndim = 2, .sizes = {d0, d1}, .strides = {s0, s1}, .dtype = dtype, .device = TD_TORCH_CUDA, .data = data};
}

/* Rows of A lie sorted by expert; the second one has most, the last row none. offsets: memory for the routing */
static inline int scaled_multiply_moe(const struct scaled_layer *l, struct fake_torch_tensor *t, int64_t *offsets, fake_torch_call_fn *call)
{
    const int64_t m = t[1].sizes[0], e = SCALED_EXPERTS, n = l->n, k = l->k;
    int32_t *sizes = (int32_t *)(offsets + e);
    struct fake_torch_tensor b = {.ndim = 3, .sizes = {e, n, k}, .strides = {n * k, k, 1}, .dtype = TD_TORCH_F8_E4M3, .device = TD_TORCH_CUDA, .data = l->w},
                             sb = {.ndim = 2, .sizes = {e, n}, .strides = {n, 1}, .dtype = TD_TORCH_F32, .device = TD_TORCH_CUDA, .data = l->w_scales},
                             at = {.ndim = 1, .sizes = {e}, .strides = {1}, .dtype = TD_TORCH_I64, .device = TD_TORCH_CUDA, .data = offsets},
                             triples = {.ndim = 2, .sizes = {e, 3}, .strides = {3, 1}, .dtype = TD_TORCH_I32, .device = TD_TORCH_CUDA, .data = sizes};
    td_torch_value stack[12] = {(uintptr_t)&t[0], (uintptr_t)&t[1], (uintptr_t)&b, (uintptr_t)&t[3], (uintptr_t)&sb, (uintptr_t)&at, (uintptr_t)&triples,
                                (uintptr_t)&at, (uintptr_t)&at, (uintptr_t)&at, 0x5501, 0x5501};

    for (int64_t i = 0, first = 0; i < e; i++) {
        const int64_t rows = i == 0 ? m / 4 : i == 1 ? m - m / 4 - m / 3 : m / 3 - (m > 3);

        offsets[i] = first;
        first += rows;
        sizes[3 * i] = (int32_t)n, sizes[3 * i + 1] = (int32_t)rows, sizes[3 * i + 2] = (int32_t)k;
    }
    return call("_C::cutlass_moe_mm", "CUDA", stack, 12, 0);
}

/* One call, as vLLM makes it. a: memory for A, its scales and its zero points; c: for C. */
static inline int scaled_multiply(const struct scaled_layer *l, int rows, unsigned char *a, void *c, fake_torch_call_fn *call)
{
    const int64_t m = rows, n = l->n, k = l->k, kb = (k + 127) / 128, nb = (n + 127) / 128;
    const int32_t dtype = l->form < SCALED_INT8 || l->form == SCALED_MOE ? TD_TORCH_F8_E4M3 : TD_TORCH_I8;
    float *scales = (float *)(a + (m * k + 255) / 256 * 256);
    int32_t *zeros = (int32_t *)(scales + m * kb);
    struct fake_torch_tensor t[] = {scaled_tensor(TD_TORCH_BF16, m, n, n, 1, c), scaled_tensor(dtype, m, k, k, 1, a), scaled_tensor(dtype, k, n, 1, k, l->w),
                                    scaled_tensor(TD_TORCH_F32, m, 1, 1, 1, scales), scaled_tensor(TD_TORCH_F32, n, 1, 1, 1, l->w_scales),
                                    scaled_tensor(TD_TORCH_I32, 1, n, n, 1, l->azp_adj), scaled_tensor(TD_TORCH_I32, m, 1, 1, 1, zeros)};
    td_torch_value azp = (uintptr_t)&t[6];
    td_torch_value stack[8] = {(uintptr_t)&t[0], (uintptr_t)&t[1], (uintptr_t)&t[2], (uintptr_t)&t[3], (uintptr_t)&t[4], 0, (uintptr_t)&azp, 0};

    scaled_numbers(l->form, a, (size_t)(m * k));
    scaled_scales(scales, (size_t)(m * kb));
    for (int64_t i = 0; i < m; i++)
        zeros[i] = (int32_t)(scaled_random() % 256) - 128;
    if (l->form == SCALED_TOKEN)
        t[4].sizes[0] = 1;
    if (l->form == SCALED_BLOCK) {
        t[3] = scaled_tensor(TD_TORCH_F32, m, kb, 1, m, scales);
        t[4] = scaled_tensor(TD_TORCH_F32, kb, nb, 1, kb, l->w_scales);
    }
    if (l->form == SCALED_MOE)
        return scaled_multiply_moe(l, t, (int64_t *)((unsigned char *)scales + (m * kb + m + 63) / 64 * 256), call);
    if (l->form != SCALED_AZP)
        return call("_C::cutlass_scaled_mm", "CUDA", stack, 6, 0);
    stack[5] = (uintptr_t)&t[5];
    return call("_C::cutlass_scaled_mm_azp", "CUDA", stack, 8, 0);
}

#endif
