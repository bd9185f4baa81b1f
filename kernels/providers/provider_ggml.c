/* provider_ggml.c - runs an op in a build of ggml: one node, one graph, one thread, on the op's tensors where they lie.
 * SPDX-License-Identifier: Apache-2.0
 *
 * ggml_mul_mat: src0 = w, src1 = a. Any other kind ggml_<op>: the op of that name with src0 .. src9 = s0 .. s9 and the parameters
 * p0 .. p15 (those not given are 0). Nodes are filled in by hand, so strides are kept and ggml copies nothing, but weights that the
 * server had repacked: the build repacks them, too (ggml_repacked.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/ops/op_kinds.h"
#include "kernels/providers/ggml_build.h"
#include "kernels/providers/ggml_repacked.h"
#include "kernels/providers/provider_common.h"

#define CONTEXT_BYTES ((size_t)1 << 20)
#define WORK_MAX ((size_t)4 << 30)

struct ggml_state {
    struct td_ggml_build build;
    char why[480], rounding[16];
};

struct ggml_prepared {
    void *context, *graph, *work;
    struct td_ggml_buffer *repacked;  /* weights; NULL: they lie as in the file */
    union td_ggml_plan plan;
    void *out;               /* before each run, what an op in place starts from is copied here; NULL: nothing */
    const void *start;
    size_t start_bytes;
};

/* ---- what an op is in ggml ------------------------------------------------------------------- */

static bool is_product(const struct td_op_call *op)
{
    return !strcmp(op->kind, "ggml_mul_mat");
}

/* "ggml_rms_norm" -> "RMS_NORM" */
static void op_name(const struct td_op_call *op, char *out, size_t n)
{
    size_t i;

    for (i = 0; i + 1 < n && op->kind[5 + i]; i++)
        out[i] = op->kind[5 + i] >= 'a' && op->kind[5 + i] <= 'z' ? (char)(op->kind[5 + i] - 'a' + 'A') : op->kind[5 + i];
    out[i] = '\0';
}

static int32_t param(const struct td_op_call *op, int i)
{
    char name[8];

    snprintf(name, sizeof name, "p%d", i);
    return (int32_t)td_op_attr(op, name, 0);
}

/* src of the node; NULL: none. */
static const struct td_tensor *input_source(const struct td_op_call *op, int i)
{
    char role[16];

    if (is_product(op))
        return i < 2 ? td_op_in(op, i ? "a" : "w") : NULL;
    snprintf(role, sizeof role, "s%d", i);
    return td_op_in(op, role);
}

/* The input into whose memory the op writes in the server. It writes parts of it only, so all of it is
 * copied to the output first. */
static const struct td_tensor *in_place(const struct td_op_call *op, const char *name)
{
    if (!strcmp(name, "SET_ROWS"))
        return input_source(op, 2);
    if ((!strcmp(name, "ACC") || !strcmp(name, "SET")) && param(op, 4))
        return input_source(op, 0);
    return NULL;
}

/* NULL: a build can run such a node by itself; else why not. */
static const char *never(const struct td_op_call *op, const char *name)
{
    static const struct { const char *name, *why;
    } ops[] = {
        {"NONE", "computes nothing"},
        {"VIEW", "computes nothing"},
        {"RESHAPE", "computes nothing"},
        {"PERMUTE", "computes nothing"},
        {"TRANSPOSE", "computes nothing"},
        {"MAP_CUSTOM1", "calls a function of the server"},
        {"MAP_CUSTOM2", "calls a function of the server"},
        {"MAP_CUSTOM3", "calls a function of the server"},
        {"CUSTOM", "calls a function of the server"},
        {"OPT_STEP_ADAMW", "changes its inputs"},
        {"OPT_STEP_SGD", "changes its inputs"},
    };

    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (!strcmp(ops[i].name, name))
            return ops[i].why;
    return !strcmp(name, "SET_ROWS") && !input_source(op, 2) ? "the tensor that it writes into was not recorded" : NULL;
}

/* ---- can it be run? -------------------------------------------------------------------------- */

static const char *set_why(struct ggml_state *s, const char *fmt, const char *a, const char *b)
{
    snprintf(s->why, sizeof s->why, fmt, a, b);
    return s->why;
}

static const char *check_tensor(struct ggml_state *s, const struct td_op_call *op, const struct td_tensor *t)
{
    if (t->ndim < 0 || t->ndim > TD_GGML_DIMS)
        return set_why(s, "%s: %s has more dimensions than a tensor of ggml", op->kind, t->role);
    if (td_ggml_type(&s->build, t->dtype) < 0)
        return set_why(s, "%s: this build of ggml has no type %s of the size that is known here",
                       op->kind, td_dtype_name(t->dtype));
    if (td_dtype_block(t->dtype) > 1 && (t->ndim < 1 || t->strides[t->ndim - 1] != 1))
        return set_why(s, "%s: the blocks of a row of %s do not lie side by side", op->kind, t->role);
    return NULL;
}

static bool same_memory(const struct td_tensor *a, const struct td_tensor *b)
{
    return a->dtype == b->dtype && a->ndim == b->ndim && !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) &&
           !memcmp(a->strides, b->strides, (size_t)a->ndim * sizeof *a->strides);
}

static const char *ggml_supports(void *state, const struct td_op_call *op)
{
    struct ggml_state *s = state;
    const struct td_op_kind *kind = strncmp(op->kind, "ggml_", 5) ? NULL : td_op_kind_find(op->kind);
    const struct td_tensor *t;
    struct td_error err = {0};
    const char *why;
    char name[32];

    if (!kind)
        return set_why(s, "ops of kind \"%s\" are not supported; this provider runs the ops of ggml%s", op->kind, "");
    if (td_op_check(kind, op, &err))
        return set_why(s, "%s%s", err.msg, "");
    op_name(op, name, sizeof name);
    if ((why = never(op, name)))
        return set_why(s, "%s: it %s, so it is not replayed", op->kind, why);
    if (td_ggml_op(&s->build, name) < 0)
        return set_why(s, "%s: this build of ggml has no op %s", op->kind, name);
    for (int i = 0; i < TD_GGML_SRC; i++)
        if ((t = input_source(op, i)) && (why = check_tensor(s, op, t)))
            return why;
    if (is_product(op) && (!input_source(op, 0) || !input_source(op, 1)))
        return set_why(s, "%s: no tensor %s", op->kind, input_source(op, 0) ? "a" : "w");
    if ((t = in_place(op, name)) && !same_memory(t, &op->out))
        return set_why(s, "%s: its output is not all of %s, into which it writes", op->kind, t->role);
    return check_tensor(s, op, &op->out);
}

/* ---- a node ---------------------------------------------------------------------------------- */

/* Make a tensor of t's type and sizes whose data are t's. The sizes are given to ggml, for a build with
 * assertions checks that a row holds whole blocks. */
static struct td_ggml_tensor *make_tensor(const struct ggml_state *s, struct td_ggml_context *context, const struct td_tensor *t)
{
    int block = td_dtype_block(t->dtype), d;
    int64_t ne[TD_GGML_DIMS];
    struct td_ggml_tensor *x;

    for (d = 0; d < TD_GGML_DIMS; d++)
        ne[d] = (d < t->ndim ? t->shape[t->ndim - 1 - d] : 1) * (d ? 1 : block);
    x = s->build.new_tensor_4d(context, td_ggml_type(&s->build, t->dtype), ne[0], ne[1], ne[2], ne[3]);
    for (d = 0; d < t->ndim; d++)
        x->nb[d] = (size_t)t->strides[t->ndim - 1 - d] * td_dtype_size(t->dtype);
    for (; d < TD_GGML_DIMS; d++)
        x->nb[d] = d ? x->nb[d - 1] * (size_t)(d == 1 ? ne[0] / block : ne[d - 1]) : td_dtype_size(t->dtype);
    x->data = t->data;
    return x;
}

/* ggml repacks what lies in rows without gaps, and does not ask. */
static bool is_dense(const struct td_tensor *t)
{
    int64_t step = 1;

    for (int d = t->ndim - 1; d >= 0; d--) {
        if (t->shape[d] != 1 && t->strides[d] != step)
            return false;
        step *= t->shape[d];
    }
    return true;
}

static bool is_repacked(const struct td_op_call *op)
{
    return (is_product(op) || !strcmp(op->kind, "ggml_mul_mat_id")) && *op->layout && strcmp(op->layout, "gguf");
}

/* Make a source of the op's node; weights are repacked, where the server's were and this build can. */
static int make_source(const struct ggml_state *s, const struct td_op_call *op, int i, struct ggml_prepared *p,
                       struct td_ggml_tensor **out, struct td_error *err)
{
    const struct td_tensor *t = input_source(op, i);
    int rc;

    if (!t)
        return TD_OK;
    *out = make_tensor(s, p->context, t);
    if (i || !is_repacked(op) || !is_dense(t))
        return TD_OK;
    (*out)->data = NULL;
    rc = td_ggml_repacked(&s->build, op->layout, *out, t->data, &p->repacked, err);
    if (!p->repacked)
        (*out)->data = t->data;
    return rc;
}

/* Make a graph of the op's node with its sources, in a context that holds nothing else. */
static int make_graph(struct ggml_state *s, const struct td_op_call *op, struct ggml_prepared *p, struct td_error *err)
{
    const struct td_tensor *t;
    struct td_ggml_tensor *c;
    char name[32];
    int rc;

    p->context = s->build.init((struct td_ggml_init){.mem_size = CONTEXT_BYTES, .no_alloc = true});
    if (!p->context)
        return td_fail(err, TD_ENOMEM, "ggml_init failed");
    op_name(op, name, sizeof name);
    c = make_tensor(s, p->context, &op->out);
    c->op = td_ggml_op(&s->build, name);
    for (int i = 0; i < TD_GGML_PARAMS; i++)
        c->op_params[i] = param(op, i);
    for (int i = 0; i < TD_GGML_SRC; i++)
        if ((rc = make_source(s, op, i, p, &c->src[i], err)))
            return rc;
    p->graph = s->build.new_graph(p->context);
    s->build.build_forward_expand(p->graph, c);
    p->plan = s->build.graph_plan(p->graph, 1, NULL);
    if ((t = in_place(op, name))) {
        p->out = op->out.data;
        p->start = t->data;
        p->start_bytes = op->out.size_bytes;
    }
    return TD_OK;
}

static void ggml_release(void *state, void *prepared)
{
    struct ggml_state *s = state;
    struct ggml_prepared *p = prepared;

    if (p && p->context)
        s->build.free(p->context);
    if (p)
        td_ggml_repacked_free(&s->build, p->repacked);
    if (p)
        free(p->work);
    free(p);
}

static int ggml_prepare(void *state, const struct td_op_call *op, void **prepared, struct td_error *err)
{
    struct ggml_prepared *p = calloc(1, sizeof *p);
    size_t work;
    int rc;

    *prepared = NULL;
    if (!p)
        return td_fail(err, TD_ENOMEM, "out of memory");
    rc = make_graph(state, op, p, err);
    work = p->plan.s.work_size;
    if (!rc && work <= WORK_MAX)
        rc = td_memory_room(work, op->kind, err);
    if (!rc && (work > WORK_MAX || !(p->work = aligned_alloc(64, (work + 127) / 64 * 64))))
        rc = td_fail(err, TD_ENOMEM, "%s: no memory for the %zu bytes that ggml works in", op->kind, work);
    if (rc) {
        ggml_release(state, p);
        return rc;
    }
    p->plan.s.work_data = p->work;
    *prepared = p;
    return TD_OK;
}

static int ggml_run(void *state, void *prepared, struct td_error *err)
{
    struct ggml_state *s = state;
    struct ggml_prepared *p = prepared;
    int status;

    if (p->start_bytes)
        memcpy(p->out, p->start, p->start_bytes);
    status = s->build.graph_compute(p->graph, &p->plan);
    return status ? td_fail(err, TD_EINVAL, "ggml_graph_compute failed (status %d)", status) : TD_OK;
}

/* ---- the build ------------------------------------------------------------------------------- */

/* The rounding that this build's CPU backend applies to activations for weights of this type. */
static const char *ggml_rounding(void *state, const struct td_op_call *op)
{
    struct ggml_state *s = state;
    const struct td_ggml_traits_cpu *traits;
    const char *name;

    if (!is_product(op) || !s->build.get_type_traits_cpu)
        return NULL;
    traits = s->build.get_type_traits_cpu(td_ggml_type(&s->build, input_source(op, 0)->dtype));
    if (!traits || traits->vec_dot_type < 0 || traits->vec_dot_type > 40)
        return NULL;
    name = s->build.type_name(traits->vec_dot_type);
    snprintf(s->rounding, sizeof s->rounding, "%s", name && strcmp(name, "f32") ? name : "none");
    return s->rounding;
}

static const char *ggml_words(void *state)
{
    return ((struct ggml_state *)state)->build.words;
}

static int ggml_open(const char *arg, void **state, struct td_error *err)
{
    struct ggml_state *s;
    int rc;

    *state = NULL;
    if (!arg || !*arg)
        return td_fail(err, TD_EINVAL,
                       "provider ggml needs the folder of a build, such as llama.cpp/build/bin, or "
                       "a library that holds ggml");
    if (!(s = calloc(1, sizeof *s)))
        return td_fail(err, TD_ENOMEM, "out of memory");
    rc = td_ggml_open(arg, &s->build, err);
    if (rc)
        free(s);
    else
        *state = s;
    return rc;
}

static void ggml_close(void *state)
{
    struct ggml_state *s = state;

    if (s)
        td_ggml_close(&s->build);
    free(s);
}

const struct td_provider td_provider_ggml = {.name = "ggml",
                                             .open = ggml_open,
                                             .supports = ggml_supports,
                                             .prepare = ggml_prepare,
                                             .run = ggml_run,
                                             .fetch = td_provider_fetch_nothing,
                                             .release = ggml_release,
                                             .close = ggml_close,
                                             .rounding = ggml_rounding,
                                             .words = ggml_words};
