/* scaled_operators.h - products of 8-bit numbers by operators of torch, as vLLM's linears in FP8 and INT8 have them:
 * for lib_cuda_model.c, whose layers they stand for.
 * SPDX-License-Identifier: Apache-2.0
 *
 * W of a layer is drawn at random; its form is the layer's number modulo 4: FP8 with scales for tokens and the tensor,
 * FP8 with scales for blocks of 128, INT8 with scales for tokens and channels, the same with zero points. An
 * address of the device is one of the host here; operators compute at once. */
#ifndef TD_TESTS_HELPERS_SCALED_OPERATORS_H
#define TD_TESTS_HELPERS_SCALED_OPERATORS_H

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helpers/fake_torch.h"

#define SCALED_MM "cutlass_scaled_mm(Tensor! out, Tensor a, Tensor b, Tensor a_scales, Tensor b_scales, Tensor? bias) -> ()" /* vLLM 0.26 */
#define SCALED_MM_AZP "cutlass_scaled_mm_azp(Tensor! out, Tensor a, Tensor b, Tensor a_scales, Tensor b_scales, Tensor azp_adj, Tensor? azp, Tensor? bias) -> ()"

enum scaled_form { SCALED_TOKEN, SCALED_BLOCK, SCALED_INT8, SCALED_AZP, SCALED_FORMS };
struct scaled_layer { int n, k; enum scaled_form form; unsigned char *w; float *w_scales; int32_t *azp_adj; };

static inline unsigned scaled_random(void)
{
    static unsigned seed = 5;

    return (seed = seed * 1664525u + 1013904223u) >> 8;
}

static inline void scaled_numbers(enum scaled_form form, unsigned char *to, size_t n)
{
    while (n--)
        to[n] = (unsigned char)(form < SCALED_INT8 ? (scaled_random() & 0x80) | scaled_random() % 0x58 : scaled_random());
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

/* Both operators: the one with zero points has two arguments more. */
static inline void scaled_operator(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    const struct fake_torch_tensor *out = (void *)stack[0], *a = (void *)stack[1], *b = (void *)stack[2], *sa = (void *)stack[3], *sb = (void *)stack[4],
                                   *adj = n_args == 8 ? (void *)stack[5] : NULL, *azp = n_args == 8 ? (void *)*(td_torch_value *)stack[6] : NULL;
    const int64_t m = a->sizes[0], k = a->sizes[1], n = b->sizes[1];
    const bool by_line = (scaled_count(sa) == 1 || scaled_count(sa) == m) && (scaled_count(sb) == 1 || scaled_count(sb) == n);
    const unsigned char *x = a->data, *w = b->data;
    int64_t i, j, l;

    (void)n_results;
    for (i = 0; i < m; i++)
        for (j = 0; j < n; j++) {
            double sum = 0;

            for (l = 0; l < k; l++) {
                const double p = (double)scaled_value(a->dtype, x[i * k + l]) * (double)scaled_value(b->dtype, w[j * k + l]);

                sum += by_line ? p : p * scaled_block(sa, i, l / 128) * scaled_block(sb, l / 128, j / 128);
            }
            sum -= adj ? (double)((const int32_t *)azp->data)[i] * ((const int32_t *)adj->data)[j] : 0;
            sum *= by_line ? scaled_line(sa, i) * scaled_line(sb, j) : 1;
            ((uint16_t *)out->data)[i * n + j] = scaled_bf16(sum);
        }
    memset(stack, 0, n_args * sizeof *stack);
}

static inline struct scaled_layer scaled_layer_new(int number, int n, int k, uint64_t (*upload)(const void *from, size_t bytes))
{
    struct scaled_layer l = {n, k, (enum scaled_form)(number % SCALED_FORMS), malloc((size_t)n * (size_t)k), malloc((size_t)n * 4), calloc((size_t)n, 4)};
    int i, j;

    scaled_numbers(l.form, l.w, (size_t)n * (size_t)k);
    scaled_scales(l.w_scales, (size_t)n); /* enough for blocks too */
    for (i = 0; i < n; i++)
        for (j = 0; j < k; j++)
            l.azp_adj[i] += (signed char)l.w[(size_t)i * (size_t)k + (size_t)j];
    l.w = (void *)upload(l.w, (size_t)n * (size_t)k);
    l.w_scales = (void *)upload(l.w_scales, (size_t)n * 4);
    l.azp_adj = (void *)upload(l.azp_adj, (size_t)n * 4);
    return l;
}

static inline struct fake_torch_tensor scaled_tensor(int32_t dtype, int64_t d0, int64_t d1, int64_t s0, int64_t s1, void *data)
{
    return (struct fake_torch_tensor){.ndim = 2, .sizes = {d0, d1}, .strides = {s0, s1}, .dtype = dtype, .device = TD_TORCH_CUDA, .data = data};
}

/* One call, as vLLM makes it. a: memory for A, its scales and its zero points; c: for C. */
static inline int scaled_multiply(const struct scaled_layer *l, int rows, unsigned char *a, void *c, fake_torch_call_fn *call)
{
    const int64_t m = rows, n = l->n, k = l->k, kb = (k + 127) / 128, nb = (n + 127) / 128;
    const int32_t dtype = l->form < SCALED_INT8 ? TD_TORCH_F8_E4M3 : TD_TORCH_I8;
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
    if (l->form != SCALED_AZP)
        return call("_C::cutlass_scaled_mm", "CUDA", stack, 6, 0);
    stack[5] = (uintptr_t)&t[5];
    return call("_C::cutlass_scaled_mm_azp", "CUDA", stack, 8, 0);
}

#endif
