/* make_ggml_ops.c - write a fixture of ggml ops on random tensors, for tests of replay. A build of
 * ggml computes the outputs.
 * SPDX-License-Identifier: Apache-2.0
 *
 * make_ggml_ops DIR BUILD [steps=N] [q4_1=1] [all=0]
 *   BUILD  folder or library of ggml: the build of the recorded server
 *   steps  number of steps; the first has 20 rows, the others 1 (default 2)
 *   q4_1   1: products with Q4_1 weights too, K/32 = 18 and 48
 *   all    0: products only, no op of another kind */
#include "tests/helpers/op_writer.h"
#include "kernels/providers/providers.h"
#include "tests/unit/random_gptq.h"

static const struct { const char *layer; enum td_dtype dt; const char *rounding; int64_t n, k; } products[] = {
    {"blk.0.attn_q.weight", TD_DT_Q8_0, "q8_0", 64, 192},
    {"blk.0.ffn_down.weight", TD_DT_Q8_0, "q8_0", 64, 256},
    {"blk.0.ffn_gate_inp.weight", TD_DT_F32, "none", 32, 128},
    {"blk.1.attn_q.weight", TD_DT_Q4_1, "q8_1", 64, 576},
    {"blk.1.ffn_down.weight", TD_DT_Q4_1, "q8_1", 64, 1536},
};
#define N_PRODUCTS 3
#define N_Q4_1 2

struct world { struct td_writer *w; const struct td_provider *provider; void *build; int64_t number; };

/* ---- tensors --------------------------------------------------------------------------------- */

static struct td_tensor *add(struct td_op_call *op, const char *role, enum td_dtype dt, int ndim, const int64_t *shape)
{
    struct td_tensor *t = strcmp(role, "c") ? &op->in[op->n_in++] : &op->out;
    int64_t count = 1;
    int d;

    snprintf(t->role, sizeof t->role, "%s", role);
    t->dtype = dt;
    t->ndim = ndim;
    for (d = ndim - 1; d >= 0; d--) {
        t->shape[d] = shape[d];
        t->strides[d] = count;
        count *= shape[d];
    }
    t->size_bytes = (size_t)count * td_dtype_size(dt);
    t->align = 32;
    t->data = calloc(1, t->size_bytes + 64);
    return t;
}

static float random_number(uint64_t *s)
{
    return (float)(random_u32(s) >> 8) / 8388608.0f - 1.0f;
}

/* Fill a tensor with random values. A quantised block begins with one or two float16 scales; the
 * bits behind them may be any. */
static void fill(struct td_tensor *t, uint64_t seed)
{
    size_t w = td_dtype_size(t->dtype), at;
    uint64_t s = seed * 7919 + 17;

    for (at = 0; at + w <= t->size_bytes; at += w) {
        uint16_t half[2] = {td_f32_to_f16(0.01f * random_number(&s)), td_f32_to_f16(0.05f * random_number(&s))};
        float f = random_number(&s);
        char *to = (char *)t->data + at;
        size_t i;

        if (t->dtype == TD_DT_F32) {
            memcpy(to, &f, 4);
        } else if (t->dtype == TD_DT_F16) {
            memcpy(to, half, 2);
        } else {
            for (i = 0; i < w; i++)
                to[i] = (char)random_u32(&s);
            memcpy(to, half, t->dtype == TD_DT_Q4_1 ? 4 : 2);
        }
    }
}

/* Run the op in the server's build, write it, and free it. */
static void record(struct world *w, struct td_op_call *op, int64_t step, const char *layer)
{
    struct td_error err = {0};
    const char *why = w->provider->supports(w->build, op);
    void *prepared = NULL;
    int t;

    if (why || w->provider->prepare(w->build, op, &prepared, &err) || w->provider->run(w->build, prepared, &err)) {
        fprintf(stderr, "make_ggml_ops: %s\n", why ? why : err.msg);
        exit(4);
    }
    w->provider->release(w->build, prepared);
    op_writer_put(w->w, op, &(struct op_writer){w->number++, step, NULL, layer, op->kind, false, false});
    for (t = 0; t < op->n_in; t++)
        free(op->in[t].data);
    free(op->out.data);
}

/* ---- ops ------------------------------------------------------------------------------------- */

static void start(struct td_op_call *op, const char *kind, const char *rounding)
{
    memset(op, 0, sizeof *op);
    snprintf(op->kind, sizeof op->kind, "%s", kind);
    snprintf(op->act_rounding, sizeof op->act_rounding, "%s", rounding);
}

static void write_product(struct world *w, int i, int64_t step, int64_t m)
{
    int64_t n = products[i].n, k = products[i].k;
    struct td_op_call op;

    start(&op, "ggml_mul_mat", products[i].rounding);
    random_attr(&op, "m", m);
    random_attr(&op, "n", n);
    random_attr(&op, "k", k);
    fill(add(&op, "a", TD_DT_F32, 2, (int64_t[]){m, k}), (uint64_t)w->number + 100);
    fill(add(&op, "w", products[i].dt, 2, (int64_t[]){n, k / td_dtype_block(products[i].dt)}), (uint64_t)i);
    add(&op, "c", TD_DT_F32, 2, (int64_t[]){m, n});
    record(w, &op, step, products[i].layer);
}

/* Two heads of a cache [16, 2, 64], four of the query: w is a view of it with the heads
 * outermost. */
static void write_view(struct world *w, int64_t step, int64_t m)
{
    struct td_op_call op;
    struct td_tensor *t;

    start(&op, "ggml_mul_mat", "f16");
    random_attr(&op, "m", m);
    random_attr(&op, "n", 16);
    random_attr(&op, "k", 64);
    fill(add(&op, "a", TD_DT_F32, 3, (int64_t[]){4, m, 64}), (uint64_t)w->number + 100);
    t = add(&op, "w", TD_DT_F16, 3, (int64_t[]){2, 16, 64});
    fill(t, 77);
    t->strides[0] = 64;
    t->strides[1] = 128;
    add(&op, "c", TD_DT_F32, 3, (int64_t[]){4, m, 16});
    record(w, &op, step, "kq-0");
}

static void write_norm(struct world *w, int64_t step, int64_t m)
{
    struct td_op_call op;
    float eps = 1e-5f;
    int32_t bits;

    memcpy(&bits, &eps, sizeof bits);
    start(&op, "ggml_rms_norm", "none");
    random_attr(&op, "p0", bits);
    fill(add(&op, "s0", TD_DT_F32, 2, (int64_t[]){m, 192}), (uint64_t)w->number + 100);
    add(&op, "c", TD_DT_F32, 2, (int64_t[]){m, 192});
    record(w, &op, step, "norm-0");
}

/* Writes m rows of 64 into a cache of 32 rows. */
static void write_set_rows(struct world *w, int64_t step, int64_t m)
{
    struct td_op_call op;
    struct td_tensor *t;
    int64_t i;

    start(&op, "ggml_set_rows", "none");
    fill(add(&op, "s0", TD_DT_F32, 2, (int64_t[]){m, 64}), (uint64_t)w->number + 100);
    t = add(&op, "s1", TD_DT_I64, 1, (int64_t[]){m});
    for (i = 0; i < m; i++)
        ((int64_t *)t->data)[i] = (i * 7 + 3) % 32;
    fill(add(&op, "s2", TD_DT_F16, 2, (int64_t[]){32, 64}), 5);
    add(&op, "c", TD_DT_F16, 2, (int64_t[]){32, 64});
    record(w, &op, step, "cache_k_l0");
}

static void write_step(struct world *w, int64_t step, bool q4_1, bool all)
{
    int64_t m = step == 0 ? 20 : 1;
    int i;

    if (all)
        write_norm(w, step, m);
    for (i = 0; i < N_PRODUCTS + (q4_1 ? N_Q4_1 : 0); i++)
        write_product(w, i, step, m);
    if (all) {
        write_set_rows(w, step, m);
        write_view(w, step, m);
    }
}

int main(int argc, char **argv)
{
    struct td_writer_options opt = {.tool = "record"};
    struct world w = {.provider = td_provider_find("ggml")};
    struct td_error err = {0};
    long s, steps = op_writer_option(argc, argv, "steps", 2);

    if (argc < 3 || w.provider->open(argv[2], &w.build, &err) || td_writer_create(argv[1], &opt, &w.w, &err)) {
        fprintf(stderr, "make_ggml_ops: %s\n", argc < 3 ? "which folder, and which build?" : err.msg);
        return 2;
    }
    td_writer_fact_str(w.w, "server", "model", "random");
    for (s = 0; s < steps; s++)
        write_step(&w, s, op_writer_option(argc, argv, "q4_1", 0), op_writer_option(argc, argv, "all", 1));
    w.provider->close(w.build);
    if (td_writer_close(w.w, "complete", &err)) {
        fprintf(stderr, "make_ggml_ops: %s\n", err.msg);
        return 4;
    }
    return 0;
}
