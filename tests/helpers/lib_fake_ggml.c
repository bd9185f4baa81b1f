/* lib_fake_ggml.c - a small, slow ggml for tests of provider ggml (replay) without llama.cpp.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It checks what ggml 0.26 checks when it is built with assertions (no -DNDEBUG): assert() in ggml.c
 * and GGML_ASSERT() in ggml-cpu, of the functions that it has, with ggml's words.
 *
 * It computes MUL_MAT (weights F32, F16, Q8_0), RMS_NORM and SET_ROWS. TD_FAKE_GGML=<word> makes it
 * wrong:
 *   layout   report larger tensors: the layout does not fit
 *   exact    Q8_0 without rounding the activations, and report so
 *   tail     Q8_0 without the blocks behind the last multiple of four
 *   norm     RMS_NORM off by 0.1 %
 *   nan      RMS_NORM gives NaN
 *   abort    RMS_NORM ends the process
 *   plan     a failed assertion when any graph but a tiny one is planned, so before anything is computed
 *   plan_norm  the same, of RMS_NORM only
 *   row        MUL_MAT takes for each row but the first the one before it, and is 1 % too large
 *   zero       MUL_MAT gives zeros
 *   repacked   weights of Q8_0 that lie in its buffer CPU_REPACK are multiplied without their last block
 * lib_fake_llama.c is the ggml that the tap sees inside a server. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/abi/ggml_abi.h"
#include "common/f16.h"

enum { F32 = 0, F16 = 1, Q8_0 = 8, I64 = 27 };
enum { NONE, VIEW, SCALE, MUL_MAT, RMS_NORM, SET_ROWS };
struct context { struct td_ggml_tensor t[64]; int n; struct td_ggml_tensor *node; };

#define DECLARE(result, name, args) result ggml_##name args;
TD_GGML_NEEDED(DECLARE)
TD_GGML_OPTIONAL(DECLARE)

static int mode_is(const char *word)
{
    const char *env = getenv("TD_FAKE_GGML");

    return env && !strcmp(env, word);
}

/* assert(), whatever NDEBUG says. */
static void demand(int holds, const char *function, const char *condition)
{
    if (holds)
        return;
    fprintf(stderr, "ggml.c: %s: Assertion `%s' failed.\n", function, condition);
    abort();
}

#define DEMAND(condition) demand(condition, __func__, #condition)

/* ---- types and ops --------------------------------------------------------------------------- */

const char *ggml_type_name(int32_t type)
{
    return type == F32 ? "f32" : type == F16 ? "f16" : type == Q8_0 ? "q8_0" : type == I64 ? "i64" : "other";
}

size_t ggml_type_size(int32_t type)
{
    return type == F32 ? 4 : type == F16 ? 2 : type == Q8_0 ? 34 : 8;
}

int64_t ggml_blck_size(int32_t type)
{
    return type == Q8_0 ? 32 : 1;
}

const char *ggml_op_name(int32_t op)
{
    static const char *const names[] = {"NONE", "VIEW", "SCALE", "MUL_MAT", "RMS_NORM", "SET_ROWS"};

    return (size_t)op < sizeof names / sizeof *names ? names[op] : NULL;
}

const struct td_ggml_traits_cpu *ggml_get_type_traits_cpu(int32_t type)
{
    static struct td_ggml_traits_cpu t;

    t.vec_dot_type = mode_is("exact") && type == Q8_0 ? F32 : type;
    return &t;
}

const char *ggml_version(void) { return "fake"; }
const char *ggml_commit(void) { return "none"; }
void ggml_cpu_init(void) {}

static size_t ggml_row_size(int32_t type, int64_t ne)
{
    DEMAND(ne % ggml_blck_size(type) == 0);
    return ggml_type_size(type) * (size_t)(ne / ggml_blck_size(type));
}

/* ---- tensors and graphs ---------------------------------------------------------------------- */

struct td_ggml_context *ggml_init(struct td_ggml_init p) { (void)p; return calloc(1, sizeof(struct context)); }
void ggml_free(struct td_ggml_context *ctx) { free(ctx); }
size_t ggml_tensor_overhead(void) { return sizeof(struct td_ggml_tensor) + (mode_is("layout") ? 1024 : 32); }
void *ggml_get_data(const struct td_ggml_tensor *t) { return t->data; }
void ggml_set_input(struct td_ggml_tensor *t) { t->flags |= 1; }

struct td_ggml_tensor *ggml_new_tensor_4d(struct td_ggml_context *ctx, int32_t type, int64_t a, int64_t b, int64_t c, int64_t d)
{
    struct context *x = (struct context *)ctx;
    struct td_ggml_tensor *t = &x->t[x->n++];
    const int64_t ne[4] = {a, b, c, d};

    DEMAND(x->n <= (int)(sizeof x->t / sizeof *x->t));
    t->type = type;
    memcpy(t->ne, ne, sizeof ne);
    t->nb[0] = ggml_type_size(type);
    t->nb[1] = ggml_row_size(type, a);
    t->nb[2] = t->nb[1] * (size_t)b;
    t->nb[3] = t->nb[2] * (size_t)c;
    return t;
}

struct td_ggml_tensor *ggml_set_name(struct td_ggml_tensor *t, const char *name)
{
    strncpy(t->name, name, sizeof t->name - 1);
    return t;
}

size_t ggml_nbytes(const struct td_ggml_tensor *t)
{
    size_t n = t->nb[0] * (size_t)(t->ne[0] / ggml_blck_size(t->type));

    for (int d = 1; d < 4; d++)
        n += (size_t)(t->ne[d] - 1) * t->nb[d];
    return n;
}

struct td_ggml_tensor *ggml_view_1d(struct td_ggml_context *ctx, struct td_ggml_tensor *a, int64_t n, size_t at)
{
    struct td_ggml_tensor *t = ggml_new_tensor_4d(ctx, a->type, n, 1, 1, 1);

    DEMAND(ggml_row_size(a->type, n) + at <= ggml_nbytes(a));
    t->op = VIEW;
    t->src[0] = t->view_src = a;
    t->view_offs = at;
    t->data = (char *)a->data + at;
    return t;
}

struct td_ggml_tensor *ggml_scale(struct td_ggml_context *ctx, struct td_ggml_tensor *a, float by)
{
    struct td_ggml_tensor *t = ggml_new_tensor_4d(ctx, a->type, a->ne[0], a->ne[1], a->ne[2], a->ne[3]);

    t->op = SCALE;
    t->src[0] = a;
    memcpy(t->op_params, &by, sizeof by);
    return t;
}

struct td_ggml_tensor *ggml_mul_mat(struct td_ggml_context *ctx, struct td_ggml_tensor *w, struct td_ggml_tensor *a)
{
    struct td_ggml_tensor *t = ggml_new_tensor_4d(ctx, F32, w->ne[1], a->ne[1], a->ne[2], a->ne[3]);

    DEMAND(w->ne[0] == a->ne[0] && a->ne[2] % w->ne[2] == 0 && a->ne[3] % w->ne[3] == 0);
    DEMAND(w->nb[0] <= w->nb[1]);
    t->op = MUL_MAT;
    t->src[0] = w;
    t->src[1] = a;
    return t;
}

struct td_ggml_graph *ggml_new_graph(struct td_ggml_context *ctx) { return (struct td_ggml_graph *)ctx; }
void ggml_build_forward_expand(struct td_ggml_graph *graph, struct td_ggml_tensor *t) { ((struct context *)graph)->node = t; }

union td_ggml_plan ggml_graph_plan(const struct td_ggml_graph *graph, int threads, void *pool)
{
    union td_ggml_plan p = {.s = {.n_threads = threads, .threadpool = pool}};
    const struct td_ggml_tensor *node = ((const struct context *)graph)->node;

    DEMAND(!mode_is("plan") || node->ne[0] <= 2);
    DEMAND(!mode_is("plan_norm") || node->op != RMS_NORM);
    return p;
}

/* ---- weights in another layout: a buffer type that has one for Q8_0, each byte of it inverted ----- */

struct td_ggml_backend { int device; };
struct td_ggml_buffer_type { const char *name; };
struct td_ggml_buffer { char *base; size_t bytes; };

static struct td_ggml_buffer_type other = {"OTHER"}, repack = {"CPU_REPACK"}, *extra_types[] = {&other, &repack, NULL};
static struct td_ggml_backend registry, device = {1};

static struct td_ggml_buffer_type **extra_types_of(struct td_ggml_backend *d)
{
    DEMAND(d == &device);
    return extra_types;
}

struct td_ggml_backend *ggml_backend_cpu_reg(void) { return &registry; }
const char *ggml_backend_buft_name(struct td_ggml_buffer_type *type) { return type->name; }
void *ggml_backend_buffer_get_base(struct td_ggml_buffer *b) { return b->base; }

struct td_ggml_backend *ggml_backend_reg_dev_get(struct td_ggml_backend *reg, size_t i)
{
    DEMAND(reg == &registry && i == 0);
    return &device;
}

void *ggml_backend_reg_get_proc_address(struct td_ggml_backend *reg, const char *name)
{
    td_ggml_extra_types *f = extra_types_of;
    void *sym;

    DEMAND(reg == &registry);
    memcpy(&sym, &f, sizeof sym);
    return strcmp(name, "ggml_backend_dev_get_extra_bufts") ? NULL : sym;
}

size_t ggml_backend_buft_get_alloc_size(struct td_ggml_buffer_type *type, const struct td_ggml_tensor *t)
{
    DEMAND(type == &repack);
    return ggml_nbytes(t);
}

struct td_ggml_buffer *ggml_backend_buft_alloc_buffer(struct td_ggml_buffer_type *type, size_t bytes)
{
    struct td_ggml_buffer *b = malloc(sizeof *b);

    DEMAND(type == &repack && b);
    *b = (struct td_ggml_buffer){malloc(bytes), bytes};
    return b;
}

int ggml_backend_tensor_alloc(struct td_ggml_buffer *b, struct td_ggml_tensor *t, void *at)
{
    DEMAND(!t->buffer && !t->data && (char *)at + ggml_nbytes(t) <= b->base + b->bytes);
    t->buffer = b;
    t->data = at;
    t->extra = t->type == Q8_0 ? &repack : NULL;
    return 0;
}

void ggml_backend_tensor_set(struct td_ggml_tensor *t, const void *data, size_t at, size_t n)
{
    DEMAND(t->buffer && t->extra && at == 0 && n == ggml_nbytes(t));
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)t->data)[i] = (unsigned char)~((const unsigned char *)data)[i];
}

void ggml_backend_buffer_free(struct td_ggml_buffer *b)
{
    free(b->base);
    free(b);
}

/* ---- computing ------------------------------------------------------------------------------- */

static char *row(const struct td_ggml_tensor *t, int64_t i1, int64_t i2, int64_t i3)
{
    return (char *)t->data + (size_t)i1 * t->nb[1] + (size_t)i2 * t->nb[2] + (size_t)i3 * t->nb[3];
}

/* One block of Q8_0 against 32 activations, which ggml rounds to the same format
 * (quantize_row_q8_0). */
static float block_dot(const char *w, const float *a)
{
    const int8_t *q = (const int8_t *)w + 2;
    uint16_t half;
    float top = 0, d, sum = 0;
    int i;

    memcpy(&half, w, 2);
    for (i = 0; i < 32; i++)
        top = fmaxf(top, fabsf(a[i]));
    d = top / 127;
    for (i = 0; i < 32; i++)
        sum += (float)q[i] * (mode_is("exact") ? a[i] : roundf(a[i] * (d > 0 ? 1 / d : 0)));
    return sum * td_f16_load(half) * (mode_is("exact") ? 1 : td_f16_load(td_f16_round(d)));
}

static float dot(const struct td_ggml_tensor *w, const char *wr, const float *a)
{
    int64_t k, n = w->ne[0] / ggml_blck_size(w->type);
    uint16_t half;
    float sum = 0;
    char block[34];

    if (w->type == Q8_0 && mode_is("tail"))
        n -= n % 4;
    if (w->extra && mode_is("repacked"))
        n--;
    for (k = 0; k < n; k++) {
        if (w->type == Q8_0) {
            for (int i = 0; i < 34; i++)
                block[i] = (char)(w->extra ? ~wr[34 * k + i] : wr[34 * k + i]);
            sum += block_dot(block, a + 32 * k);
        } else if (w->type == F16) {
            memcpy(&half, wr + 2 * k, 2);
            sum += td_f16_load(half) * td_f16_load(td_f16_round(a[k]));
        } else {
            sum += ((const float *)(const void *)wr)[k] * a[k];
        }
    }
    return sum;
}

static void mul_mat(const struct td_ggml_tensor *c)
{
    const struct td_ggml_tensor *w = c->src[0], *a = c->src[1];
    const int late = mode_is("row");
    const float wrong = late ? 1.01f : mode_is("zero") ? 0 : 1;

    DEMAND(c->ne[0] == w->ne[1] && c->ne[1] == a->ne[1] && c->ne[2] == a->ne[2] && c->ne[3] == a->ne[3]);
    DEMAND(w->nb[0] == ggml_type_size(w->type) && a->nb[0] == ggml_type_size(a->type));
    DEMAND(c->nb[0] == sizeof(float) && c->nb[0] <= c->nb[1] && c->nb[1] <= c->nb[2] && c->nb[2] <= c->nb[3]);
    for (int64_t i3 = 0; i3 < c->ne[3]; i3++)
        for (int64_t i2 = 0; i2 < c->ne[2]; i2++)
            for (int64_t m = 0; m < c->ne[1]; m++)
                for (int64_t n = 0; n < c->ne[0]; n++)
                    ((float *)(void *)row(c, m, i2, i3))[n] = wrong * dot(w, row(w, n, i2 / (c->ne[2] / w->ne[2]), i3 / (c->ne[3] / w->ne[3])),
                                                                          (float *)(void *)row(a, late && m ? m - 1 : m, i2, i3));
}

static void rms_norm(const struct td_ggml_tensor *c)
{
    float eps;

    if (mode_is("abort"))
        abort();
    memcpy(&eps, c->op_params, sizeof eps);
    DEMAND(!memcmp(c->ne, c->src[0]->ne, sizeof c->ne) && c->src[0]->nb[0] == sizeof(float) && eps >= 0);
    for (int64_t m = 0; m < c->ne[1]; m++) {
        const float *a = (float *)(void *)row(c->src[0], m, 0, 0);
        float *to = (float *)(void *)row(c, m, 0, 0), sum = 0;
        int64_t i;

        for (i = 0; i < c->ne[0]; i++)
            sum += a[i] * a[i];
        for (i = 0; i < c->ne[0]; i++)
            to[i] = mode_is("nan") ? NAN : a[i] / sqrtf(sum / (float)c->ne[0] + eps) * (mode_is("norm") ? 1.001f : 1);
    }
}

static void set_rows(const struct td_ggml_tensor *c)
{
    const int64_t *at = c->src[1]->data;

    DEMAND(c->ne[0] == c->src[0]->ne[0] && c->src[0]->ne[1] == c->src[1]->ne[0] && c->src[0]->type == F32);
    for (int64_t m = 0; m < c->src[0]->ne[1]; m++)
        for (int64_t i = 0; i < c->ne[0]; i++)
            ((uint16_t *)(void *)row(c, at[m], 0, 0))[i] = td_f16_round(((float *)(void *)row(c->src[0], m, 0, 0))[i]);
}

int ggml_graph_compute(struct td_ggml_graph *graph, union td_ggml_plan *plan)
{
    const struct td_ggml_tensor *c = ((struct context *)graph)->node;

    DEMAND(plan && plan->s.n_threads > 0 && (plan->s.work_size == 0 || plan->s.work_data));
    if (c->op == MUL_MAT)
        mul_mat(c);
    else if (c->op == RMS_NORM)
        rms_norm(c);
    else if (c->op == SET_ROWS)
        set_rows(c);
    return 0;
}
