/* llama.c - one step: the forward pass over a batch of rows.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source of the formulas: transformers' modeling_llama.py (RMSNorm in f32, rotate_half RoPE, grouped-query attention, SwiGLU). */
#include "demo/server/llama.h"

#include <math.h>
#include <string.h>

#include "kernels/abi/td_gptq.h"
#include "model/dtype.h"

/* Vectors of four floats, which every x86-64 and ARM has, by the vector types that gcc and clang
 * share. */
typedef float vec4 __attribute__((vector_size(16), aligned(4), may_alias));

/* The sum always runs in the same order, whatever n or alignment. */
static float dot_product(const float *a, const float *b, int n)
{
    vec4 s0 = {0}, s1 = {0};
    float sum;
    int i = 0;

    for (; i + 8 <= n; i += 8) {
        s0 += *(const vec4 *)(a + i) * *(const vec4 *)(b + i);
        s1 += *(const vec4 *)(a + i + 4) * *(const vec4 *)(b + i + 4);
    }
    s0 += s1;
    sum = (s0[0] + s0[2]) + (s0[1] + s0[3]);
    for (; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void add_scaled(float *out, const float *v, float scale, int n)
{
    int i = 0;

    for (; i + 4 <= n; i += 4)
        *(vec4 *)(out + i) += *(const vec4 *)(v + i) * scale;
    for (; i < n; i++)
        out[i] += v[i] * scale;
}

static int run_gemm(struct td_llama *m, int l, enum td_llama_linear which, const uint16_t *a,
                    int rows, struct td_error *err)
{
    const struct td_gptq_weight *w = m->layer[l].linear[which];
    const struct td_gptq_gemm_args args = {.struct_size = sizeof args,
                                           .m = rows,
                                           .n = (int32_t)w->n,
                                           .k = (int32_t)w->k,
                                           .bits = w->bits,
                                           .group_size = w->group_size,
                                           .zero_offset = w->zero_offset,
                                           .a = a,
                                           .lda = w->k,
                                           .qweight = w->qweight,
                                           .qzeros = w->qzeros,
                                           .scales = w->scales,
                                           .g_idx = w->g_idx,
                                           .c = m->c[which],
                                           .ldc = w->n};
    int status = td_gptq_gemm(&args);

    m->n_gemms++;
    if (status != TD_KERNEL_OK)
        return td_fail(err, TD_EUNSUPPORTED,
                       "td_gptq_gemm (%s) answered %d for layer %d, linear %d, m=%d n=%d k=%d",
                       td_kernels_build(), status, l, (int)which, rows, (int)w->n, (int)w->k);
    return TD_OK;
}

/* out = f16(x * weight / rms(x)) for every row; torch's order: the square mean in f32, then the weight. */
static void rms_norm(const struct td_llama *m, const float *weight, float *out, int rows)
{
    int hidden = m->cfg.hidden_size;

    for (int r = 0; r < rows; r++) {
        const float *x = m->x + (size_t)r * (size_t)hidden;
        float *y = out + (size_t)r * (size_t)hidden;
        float scale =
            1.0f / sqrtf(dot_product(x, x, hidden) / (float)hidden + (float)m->cfg.rms_norm_eps);
        for (int i = 0; i < hidden; i++)
            y[i] = weight[i] * (x[i] * scale);
    }
}

/* Add a linear layer's output to the residual. */
static void add_residual(struct td_llama *m, enum td_llama_linear which, int rows)
{
    size_t n = (size_t)rows * (size_t)m->cfg.hidden_size;

    td_f16_to_f32_n(m->c[which], m->tmp, n);
    add_scaled(m->x, m->tmp, 1.0f, (int)n);
}

/* Rotate one head in place; element i pairs with i + half (rotate_half). */
static void rotate_head(const struct td_llama *m, float *head, int position)
{
    int half = m->cfg.head_dim / 2;
    const float *c = m->rope_cos + (size_t)position * (size_t)half, *s = m->rope_sin + (size_t)position * (size_t)half;

    for (int i = 0; i < half; i++) {
        float lo = head[i], hi = head[i + half];
        head[i] = lo * c[i] - hi * s[i];
        head[i + half] = hi * c[i] + lo * s[i];
    }
}

static size_t cache_offset(const struct td_llama *m, int slot, int l, int position)
{
    size_t kv = (size_t)m->cfg.num_kv_heads * (size_t)m->cfg.head_dim;

    return (((size_t)slot * (size_t)m->cfg.num_layers + (size_t)l) * (size_t)m->cfg.max_position + (size_t)position) * kv;
}

static void store_kv(struct td_llama *m, int l, const struct td_llama_row *rows, int n)
{
    int dim = m->cfg.head_dim, heads = m->cfg.num_kv_heads;
    size_t kv = (size_t)heads * (size_t)dim;

    for (int r = 0; r < n; r++) {
        size_t at = cache_offset(m, rows[r].slot, l, rows[r].position);
        td_f16_to_f32_n(m->c[TD_LIN_K] + (size_t)r * kv, m->cache_k + at, kv);
        td_f16_to_f32_n(m->c[TD_LIN_V] + (size_t)r * kv, m->cache_v + at, kv);
        for (int h = 0; h < heads; h++)
            rotate_head(m, m->cache_k + at + (size_t)h * (size_t)dim, rows[r].position);
    }
}

/* Softmax of s[0..n) in place; returns the sum by which the caller divides. A NaN makes all of it NaN. */
static float softmax_in_place(float *s, int n)
{
    float max = s[0], sum = 0;

    for (int i = 1; i < n; i++)
        max = s[i] > max ? s[i] : max;
    for (int i = 0; i < n; i++)
        sum += s[i] = expf(s[i] - max);
    return sum;
}

/* Run attention of one head of one row, over all that its sequence has cached. */
static void attend_head(struct td_llama *m, int l, const struct td_llama_row *row, int h, const float *q, float *out)
{
    int dim = m->cfg.head_dim, kv_head = h / (m->cfg.num_heads / m->cfg.num_kv_heads), n = row->position + 1;
    size_t stride = (size_t)m->cfg.num_kv_heads * (size_t)dim,
           at = cache_offset(m, row->slot, l, 0) + (size_t)kv_head * (size_t)dim;
    float scale = 1.0f / sqrtf((float)dim), sum;

    for (int p = 0; p < n; p++)
        m->score[p] = dot_product(q, m->cache_k + at + (size_t)p * stride, dim) * scale;
    sum = softmax_in_place(m->score, n);
    memset(out, 0, (size_t)dim * sizeof *out);
    for (int p = 0; p < n; p++)
        add_scaled(out, m->cache_v + at + (size_t)p * stride, m->score[p], dim);
    for (int i = 0; i < dim; i++)
        out[i] /= sum;
}

static void run_attention(struct td_llama *m, int l, const struct td_llama_row *rows, int n)
{
    int dim = m->cfg.head_dim, heads = m->cfg.num_heads;
    size_t width = (size_t)heads * (size_t)dim;

    store_kv(m, l, rows, n);
    td_f16_to_f32_n(m->c[TD_LIN_Q], m->tmp, (size_t)n * width);
    for (int r = 0; r < n; r++)
        for (int h = 0; h < heads; h++) {
            size_t at = (size_t)r * width + (size_t)h * (size_t)dim;
            rotate_head(m, m->tmp + at, rows[r].position);
            attend_head(m, l, &rows[r], h, m->tmp + at, m->attn + at);
        }
}

/* silu(gate) * up, in f32 */
static void apply_swiglu(struct td_llama *m, int rows)
{
    size_t n = (size_t)rows * (size_t)m->cfg.intermediate_size;

    for (size_t i = 0; i < n; i++) {
        float g = td_f16_to_f32(m->c[TD_LIN_GATE][i]);
        m->tmp[i] = g / (1.0f + expf(-g)) * td_f16_to_f32(m->c[TD_LIN_UP][i]);
    }
    td_f32_to_f16_n(m->tmp, m->a_ffn, n);
}

static int run_layer(struct td_llama *m, int l, const struct td_llama_row *rows, int n, struct td_error *err)
{
    size_t hidden = (size_t)n * (size_t)m->cfg.hidden_size;
    int rc = TD_OK;

    rms_norm(m, m->layer[l].norm_attn, m->tmp, n);
    td_f32_to_f16_n(m->tmp, m->a_hidden, hidden);
    for (int i = TD_LIN_Q; i <= TD_LIN_V && !rc; i++)
        rc = run_gemm(m, l, (enum td_llama_linear)i, m->a_hidden, n, err);
    if (rc)
        return rc;
    run_attention(m, l, rows, n);
    td_f32_to_f16_n(m->attn, m->a_attn, (size_t)n * (size_t)m->cfg.num_heads * (size_t)m->cfg.head_dim);
    rc = run_gemm(m, l, TD_LIN_O, m->a_attn, n, err);
    if (rc)
        return rc;
    add_residual(m, TD_LIN_O, n);

    rms_norm(m, m->layer[l].norm_mlp, m->tmp, n);
    td_f32_to_f16_n(m->tmp, m->a_hidden, hidden);
    for (int i = TD_LIN_GATE; i <= TD_LIN_UP && !rc; i++)
        rc = run_gemm(m, l, (enum td_llama_linear)i, m->a_hidden, n, err);
    if (rc)
        return rc;
    apply_swiglu(m, n);
    rc = run_gemm(m, l, TD_LIN_DOWN, m->a_ffn, n, err);
    if (!rc)
        add_residual(m, TD_LIN_DOWN, n);
    return rc;
}

int td_llama_step(struct td_llama *m, const struct td_llama_row *rows, int n, float *logits,
                  struct td_error *err)
{
    size_t hidden = (size_t)m->cfg.hidden_size;
    int rc = TD_OK;

    for (int r = 0; r < n; r++)
        memcpy(m->x + (size_t)r * hidden, m->embed + (size_t)rows[r].token * hidden, hidden * sizeof *m->x);
    for (int l = 0; l < m->cfg.num_layers && !rc; l++)
        rc = run_layer(m, l, rows, n, err);
    if (rc)
        return rc;
    rms_norm(m, m->norm, m->tmp, n);
    for (int r = 0; r < n; r++) {
        if (!rows[r].wants_logits)
            continue;
        for (int v = 0; v < m->cfg.vocab_size; v++)
            *logits++ = dot_product(m->tmp + (size_t)r * hidden, m->head + (size_t)v * hidden, m->cfg.hidden_size);
    }
    return TD_OK;
}
