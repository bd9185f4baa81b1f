/* op_case.h - random ops of every kind for tests, each tensor between guard pages.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_UNIT_KERNELS_OPS_OP_CASE_H
#define TD_TESTS_UNIT_KERNELS_OPS_OP_CASE_H

#include <stdio.h>

#include "kernels/ops/dot_f32.h"
#include "kernels/ops/op_kinds.h"
#include "kernels/ops/op_variants.h"
#include "model/ggml_blocks.h"
#include "tests/unit/kernels/gptq_gemm/gptq_case.h"

struct op_case { struct td_op_call op; struct guarded memory[TD_OP_MAX_TENSORS + 1]; int n; bool at_end; };

/* Where the 16-bit scales of a block lie; -1: no further one. */
static inline const int *block_scales(enum td_dtype dt)
{
    static const int first[] = {0, -1, -1}, two[] = {0, 2, -1}, q2[] = {80, 82, -1}, q3[] = {108, -1, -1}, q6[] = {208, -1, -1};

    return dt == TD_DT_Q2_K ? q2 : dt == TD_DT_Q3_K ? q3 : dt == TD_DT_Q6_K ? q6 : dt == TD_DT_Q4_0 || dt == TD_DT_Q5_0 || dt == TD_DT_Q8_0 ? first : two;
}

/* Any bits, but scales of a few hundredths, of either sign. */
static inline void fill_blocks(enum td_dtype dt, unsigned char *data, size_t size)
{
    const size_t block = td_dtype_size(dt);

    for (size_t i = 0; i < size; i++)
        data[i] = (unsigned char)case_random();
    for (size_t at = 0; at + block <= size; at += block)
        for (const int *s = block_scales(dt); *s >= 0; s++) {
            const uint16_t h = td_f16_round(0.02f * case_normal());

            memcpy(data + at + *s, &h, 2);
        }
}

static inline void fill_floats(enum td_dtype dt, void *data, size_t size, float scale)
{
    for (size_t i = 0; i < size / td_dtype_size(dt); i++)
        td_store_f32(dt, data, (int64_t)i, scale * case_normal());
}

/* A tensor whose memory is what shape and strides span; strides NULL: dense. Filled with random numbers; the output with poison. */
static inline struct td_tensor *case_tensor(struct op_case *t, const char *role, enum td_dtype dt, int ndim, const int64_t *shape,
                                            const int64_t *strides, float scale)
{
    const bool is_out = !strcmp(role, "c");
    struct td_tensor *x = is_out ? &t->op.out : &t->op.in[t->op.n_in++];
    int64_t last = 0, count = 1, dense = 1;

    *x = (struct td_tensor){.dtype = dt, .ndim = ndim, .align = 2};
    snprintf(x->role, sizeof x->role, "%s", role);
    for (int d = ndim - 1; d >= 0; d--) {
        x->shape[d] = shape[d];
        x->strides[d] = strides ? strides[d] : dense;
        dense *= shape[d];
        count *= shape[d];
        last += (shape[d] - 1) * x->strides[d];
    }
    x->size_bytes = count ? (size_t)(last + 1) * td_dtype_size(dt) : 0;
    t->memory[t->n] = guarded_new(x->size_bytes, t->at_end);
    x->data = t->memory[t->n++].data;
    if (is_out)
        memset(x->data, 0x7f, x->size_bytes);
    else if (td_dtype_block(dt) > 1)
        fill_blocks(dt, x->data, x->size_bytes);
    else if (dt == TD_DT_F32 || dt == TD_DT_F16 || dt == TD_DT_BF16)
        fill_floats(dt, x->data, x->size_bytes, scale);
    else
        for (size_t i = 0; i < x->size_bytes; i++)
            ((unsigned char *)x->data)[i] = (unsigned char)case_random();
    return x;
}

static inline void case_attr(struct op_case *t, const char *name, int64_t v)
{
    snprintf(t->op.attrs[t->op.n_attrs].name, sizeof t->op.attrs[0].name, "%s", name);
    t->op.attrs[t->op.n_attrs++].value = v;
}

static inline void case_start(struct op_case *t, const char *kind, const char *rounding, int64_t m, int64_t n, int64_t k, bool at_end)
{
    memset(t, 0, sizeof *t);
    t->at_end = at_end;
    snprintf(t->op.kind, sizeof t->op.kind, "%s", kind);
    snprintf(t->op.act_rounding, sizeof t->op.act_rounding, "%s", rounding);
    case_attr(t, "m", m);
    case_attr(t, "n", n);
    case_attr(t, "k", k);
}

static inline void op_case_release(struct op_case *t)
{
    for (int i = 0; i < t->n; i++)
        munmap(t->memory[i].map, t->memory[i].map_size);
    memset(t, 0, sizeof *t);
}

/* Rows of A and C lie gap elements apart, rows of W gap blocks. b and w: batches {b3, b2} and {w3, w2}. */
static inline void case_mul_mat(struct op_case *t, enum td_dtype w, int64_t m, int64_t n, int64_t k, const int64_t *batches, int64_t gap, bool at_end)
{
    const int64_t b3 = batches[0], b2 = batches[1], w3 = batches[2], w2 = batches[3], kb = k / td_dtype_block(w);
    const int ndim = b3 * b2 * w3 * w2 > 1 ? 4 : 2, skip = 4 - ndim;

    case_start(t, "ggml_mul_mat", td_ggml_act_name(td_ggml_act_of(w)), m, n, k, at_end);
    case_tensor(t, "a", TD_DT_F32, ndim, (int64_t[]){b3, b2, m, k} + skip, (int64_t[]){b2 * m * (k + gap), m * (k + gap), k + gap, 1} + skip, 1);
    case_tensor(t, "w", w, ndim, (int64_t[]){w3, w2, n, kb} + skip, (int64_t[]){w2 * n * (kb + gap), n * (kb + gap), kb + gap, 1} + skip, 0.05f);
    case_tensor(t, "c", TD_DT_F32, ndim, (int64_t[]){b3, b2, m, n} + skip, (int64_t[]){b2 * m * (n + gap), m * (n + gap), n + gap, 1} + skip, 0);
}

static inline void case_gemm(struct op_case *t, enum td_dtype dt, int64_t m, int64_t n, int64_t k, bool bias, int64_t gap, bool at_end)
{
    case_start(t, "gemm", "none", m, n, k, at_end);
    case_attr(t, "trans_b", 1);
    case_tensor(t, "a", dt, 2, (int64_t[]){m, k}, (int64_t[]){k + gap, 1}, 1);
    case_tensor(t, "w", dt, 2, (int64_t[]){n, k}, (int64_t[]){k + gap, 1}, 0.05f);
    if (bias)
        case_tensor(t, "bias", TD_DT_F32, 1, &n, NULL, 1);
    case_tensor(t, "c", dt, 2, (int64_t[]){m, n}, (int64_t[]){n + gap, 1}, 0);
}

/* zero: 0 none, 1 within azp_adj, 2 an azp for each row. */
struct scaled_form { enum td_dtype a, w, c; bool by_row, by_column, bias; int64_t block; int zero; };

static inline void case_scaled_mm(struct op_case *t, const struct scaled_form *f, int64_t m, int64_t n, int64_t k, int64_t gap, bool at_end)
{
    const int64_t b = f->block ? f->block : 1, kb = (k + b - 1) / b, nb = (n + b - 1) / b, sa = f->by_row ? m : 1, sw = f->by_column ? n : 1;

    case_start(t, "scaled_mm", "none", m, n, k, at_end);
    if (f->block)
        case_attr(t, "block", f->block);
    for (int i = 0; i < 2; i++) {
        unsigned char *x = case_tensor(t, i ? "w" : "a", i ? f->w : f->a, 2, (int64_t[]){i ? n : m, k}, (int64_t[]){k + gap, 1}, 0)->data;

        for (size_t e = 0; f->a != TD_DT_I8 && e < t->op.in[i].size_bytes; e++)
            x[e] &= 0xbb;             /* neither NaN nor Inf */
    }
    case_tensor(t, "a_scales", TD_DT_F32, f->block ? 2 : 1, (int64_t[]){f->block ? kb : sa, m}, NULL, 0.02f);
    case_tensor(t, "w_scales", TD_DT_F32, f->block ? 2 : 1, (int64_t[]){f->block ? nb : sw, kb}, NULL, 0.02f);
    for (int i = 0; i < f->zero; i++) {
        int32_t *z = case_tensor(t, i ? "azp" : "azp_adj", TD_DT_I32, 1, i ? &m : &n, NULL, 0)->data;

        for (int64_t e = 0; e < (i ? m : n); e++)
            z[e] %= i ? 128 : 100000;
    }
    if (f->bias)
        case_tensor(t, "bias", f->c, 1, &n, NULL, 1);
    case_tensor(t, "c", f->c, 2, (int64_t[]){m, n}, (int64_t[]){n + gap, 1}, 0);
}

/* Rows of experts: 0, 1, 2, 0, … of them, as many as there are; what is left has none. transposed: of problem_sizes. */
struct moe_scaled_form { enum td_dtype a, w, c; bool by_row, by_column, transposed; int experts; };

static inline void case_moe_scaled(struct op_case *t, const struct moe_scaled_form *f, int64_t m, int64_t n, int64_t k, int64_t gap, bool at_end)
{
    const int64_t e = f->experts, sa = f->by_row ? m : 1;
    int64_t *offsets, first = 0;
    int32_t *sizes;

    case_start(t, "moe_scaled_mm", "none", m, n, k, at_end);
    case_attr(t, "experts", e);
    for (int i = 0; i < 2; i++) {
        unsigned char *x = i ? case_tensor(t, "w", f->w, 3, (int64_t[]){e, n, k}, NULL, 0)->data
                             : case_tensor(t, "a", f->a, 2, (int64_t[]){m, k}, (int64_t[]){k + gap, 1}, 0)->data;

        for (size_t b = 0; b < t->op.in[i].size_bytes; b++)
            x[b] &= 0xbb;             /* neither NaN nor Inf */
    }
    case_tensor(t, "a_scales", TD_DT_F32, 1, &sa, NULL, 0.02f);
    case_tensor(t, "w_scales", TD_DT_F32, f->by_column ? 2 : 1, (int64_t[]){e, n}, NULL, 0.02f);
    offsets = case_tensor(t, "expert_offsets", TD_DT_I64, 1, &e, NULL, 0)->data;
    sizes = case_tensor(t, "problem_sizes", TD_DT_I32, 2, (int64_t[]){e, 3}, NULL, 0)->data;
    for (int64_t i = 0; i < e; i++) {
        const int64_t rows = i % 3 < m - first ? i % 3 : m - first;

        offsets[i] = first;
        memcpy(sizes + 3 * i, f->transposed ? (int32_t[]){(int32_t)n, (int32_t)rows, (int32_t)k} : (int32_t[]){(int32_t)rows, (int32_t)n, (int32_t)k}, 12);
        first += rows;
    }
    case_tensor(t, "c", f->c, 2, (int64_t[]){m, n}, (int64_t[]){n + gap, 1}, 0);
}

struct gptq_form { enum td_dtype dtype, scales; const char *rounding; bool bias, act_order; int bits, group; };

static inline void case_gptq(struct op_case *t, const struct gptq_form *f, int64_t m, int64_t n, int64_t k, int64_t gap, bool at_end)
{
    const int64_t pack = 32 / f->bits, groups = k / f->group;

    case_start(t, "gptq_gemm", f->rounding, m, n, k, at_end);
    case_attr(t, "bits", f->bits);
    case_attr(t, "group_size", f->group);
    case_attr(t, "act_order", f->act_order);
    case_tensor(t, "a", f->dtype, 2, (int64_t[]){m, k}, (int64_t[]){k + gap, 1}, 1);
    case_tensor(t, "qweight", TD_DT_I32, 2, (int64_t[]){k / pack, n}, NULL, 0);
    case_tensor(t, "qzeros", TD_DT_I32, 2, (int64_t[]){groups, n / pack}, NULL, 0);
    case_tensor(t, "scales", f->scales, 2, (int64_t[]){groups, n}, NULL, 0.01f);
    if (f->act_order) {
        int32_t *g = case_tensor(t, "g_idx", TD_DT_I32, 1, &k, NULL, 0)->data;

        for (int64_t i = 0; i < k; i++)
            g[i] = (int32_t)(case_random() % groups);
    }
    if (f->bias)
        case_tensor(t, "bias", f->scales, 1, &n, NULL, 1);
    case_tensor(t, "c", f->dtype, 2, (int64_t[]){m, n}, (int64_t[]){n + gap, 1}, 0);
}

struct moe_form { enum td_dtype dtype, scales; const char *rounding; bool bias, act_order, multiply, round; int bits, group, experts, top_k, block; };

/* m * top_k slots, each with an expert at random, none of them the last one; the last block is another rank's if `absent`. */
static inline void case_routing(struct op_case *t, const struct moe_form *f, int64_t m, bool absent)
{
    const int64_t slots = m * f->top_k, room = slots + f->experts * (f->block - 1), blocks = (room + f->block - 1) / f->block;
    int32_t *sorted = case_tensor(t, "sorted_token_ids", TD_DT_I32, 1, &room, NULL, 0)->data;
    int32_t *experts = case_tensor(t, "expert_ids", TD_DT_I32, 1, &blocks, NULL, 0)->data;
    int32_t *padded = case_tensor(t, "num_tokens_post_padded", TD_DT_I32, 1, (int64_t[]){1}, NULL, 0)->data;
    float *weights = case_tensor(t, "topk_weights", TD_DT_F32, 2, (int64_t[]){m, f->top_k}, NULL, 0)->data;
    unsigned char *choice = calloc((size_t)slots + 1, 1);
    int64_t n = 0, b = 0;

    for (int64_t s = 0; s < slots; s++) {
        choice[s] = (unsigned char)(case_random() % (uint32_t)(f->experts - 1));
        weights[s] = (float)(case_random() % 1000) / 1000;
    }
    for (int e = 0; e < f->experts; e++) {
        for (int64_t s = 0; s < slots; s++)
            if (choice[s] == e)
                sorted[n++] = (int32_t)s;
        while (n % f->block)
            sorted[n++] = (int32_t)slots + e;
        while (b < n / f->block)
            experts[b++] = e;
    }
    if (absent && b)
        experts[b - 1] = -1;
    *padded = (int32_t)n;
    free(choice);
}

static inline void case_moe(struct op_case *t, const struct moe_form *f, int64_t m, int64_t n, int64_t k, int64_t gap, bool absent, bool at_end)
{
    const int64_t pack = 32 / f->bits, groups = k / f->group, e = f->experts;

    case_start(t, "moe_gemm", f->rounding, m, n, k, at_end);
    case_attr(t, "bits", f->bits);
    case_attr(t, "group_size", f->group);
    case_attr(t, "act_order", f->act_order);
    case_attr(t, "experts", e);
    case_attr(t, "top_k", f->top_k);
    case_attr(t, "block_size", f->block);
    case_attr(t, "mul_topk_weights", f->multiply);
    case_attr(t, "round_topk_weights", f->round);
    case_tensor(t, "a", f->dtype, 2, (int64_t[]){m, k}, (int64_t[]){k + gap, 1}, 1);
    case_tensor(t, "qweight", TD_DT_I32, 3, (int64_t[]){e, k / pack, n}, NULL, 0);
    case_tensor(t, "qzeros", TD_DT_I32, 3, (int64_t[]){e, groups, n / pack}, NULL, 0);
    case_tensor(t, "scales", f->scales, 3, (int64_t[]){e, groups, n}, NULL, 0.01f);
    case_routing(t, f, m, absent);
    if (f->act_order) {
        int32_t *g = case_tensor(t, "g_idx", TD_DT_I32, 2, (int64_t[]){e, k}, NULL, 0)->data;

        for (int64_t i = 0; i < e * k; i++)
            g[i] = (int32_t)(case_random() % groups);
    }
    if (f->bias)
        case_tensor(t, "bias", f->scales, 2, (int64_t[]){e, n}, NULL, 1);
    case_tensor(t, "c", f->dtype, 2, (int64_t[]){m * f->top_k, n}, (int64_t[]){n + gap, 1}, 0);
}

#endif
