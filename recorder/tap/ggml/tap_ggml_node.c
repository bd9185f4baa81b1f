/* tap_ggml_node.c - describe a node of ggml's graph as a call of a kernel.
 * SPDX-License-Identifier: Apache-2.0
 *
 * MUL_MAT becomes ggml_mul_mat with the roles a, w and c. Every other op becomes ggml_<op> with its
 * sources as they lie, s0 .. s9. Sources in a buffer of weights are sent once an arm, all others
 * each time. Numbers of ops and types differ between versions of ggml: only its names are used. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "recorder/tap/ggml/tap_ggml_node.h"
#include "recorder/tap/core/tap.h"

/* How activations are rounded for weights of a type: vec_dot_type in type_traits_cpu of
 * ggml/src/ggml-cpu/ggml-cpu.c. Frequent ones first. */
static const struct { const char *dtype, *rounding; } formats[] = {
    {"F32", "none"},     {"F16", "f16"},     {"Q8_0", "q8_0"},    {"Q4_K", "q8_K"},
    {"Q6_K", "q8_K"},    {"Q4_0", "q8_0"},   {"Q4_1", "q8_1"},    {"Q5_0", "q8_0"},
    {"Q5_1", "q8_1"},    {"Q2_K", "q8_K"},   {"Q3_K", "q8_K"},    {"Q5_K", "q8_K"},
    {"BF16", "bf16"},    {"I32", "none"},    {"I64", "none"},     {"MXFP4", "q8_0"},
    {"NVFP4", "q8_0"},   {"IQ4_NL", "q8_0"}, {"IQ4_XS", "q8_K"},  {"IQ3_S", "q8_K"},
    {"IQ3_XXS", "q8_K"}, {"IQ2_S", "q8_K"},  {"IQ2_XS", "q8_K"},  {"IQ2_XXS", "q8_K"},
    {"IQ1_S", "q8_K"},   {"IQ1_M", "q8_K"},  {"TQ1_0", "q8_K"},   {"TQ2_0", "q8_K"},
    {"Q1_0", "q8_0"},    {"Q2_0", "q8_0"},   {"Q8_1", "unknown"}, {"Q8_K", "unknown"},
    {"I8", "none"},      {"I16", "none"},    {"F64", "none"},
};

/* The fixture's name for a type of this ggml and, unless NULL, its rounding. An unknown type keeps
 * ggml's name. */
static const char *format_of(const struct tap_ggml_host *h, int32_t type, const char **rounding)
{
    const char *name = h->type_name(type);
    size_t i;

    for (i = 0; name && i < sizeof formats / sizeof *formats; i++)
        if (!strcasecmp(formats[i].dtype, name)) {
            if (rounding)
                *rounding = formats[i].rounding;
            return formats[i].dtype;
        }
    if (rounding)
        *rounding = "unknown";
    return name;
}

/* ---- which nodes ----------------------------------------------------------------------------- */

static bool has_elements(const struct td_ggml_tensor *t)
{
    return t->ne[0] > 0 && t->ne[1] > 0 && t->ne[2] > 0 && t->ne[3] > 0;
}

static bool left_out(const struct tap_ggml_host *h, const struct td_ggml_tensor *t)
{
    return (t->flags & h->flag) != h->flag || !has_elements(t);
}

bool tap_ggml_is_gemm(const struct tap_ggml_host *h, const struct td_ggml_tensor *t)
{
    const char *op = h->op_name(t->op);

    return !strncmp(op, "MUL_MAT", 7) && (!op[7] || !strcmp(op + 7, "_ID")) && t->src[0] &&
           t->src[1] && has_elements(t->src[0]) && !left_out(h, t);
}

bool tap_ggml_computes(const struct tap_ggml_host *h, const struct td_ggml_tensor *t)
{
    static const char *const idle[] = {"NONE", "VIEW", "RESHAPE", "PERMUTE", "TRANSPOSE"};
    const char *op = h->op_name(t->op);
    size_t i;

    for (i = 0; i < sizeof idle / sizeof *idle; i++)
        if (!strcmp(op, idle[i]))
            return false;
    return !left_out(h, t);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static struct td_ggml_buffer *buffer_of(const struct td_ggml_tensor *t)
{
    return t->view_src ? t->view_src->buffer : t->buffer;
}

static bool readable(const struct tap_ggml_host *h, const struct td_ggml_tensor *t)
{
    struct td_ggml_buffer *b = buffer_of(t);

    return b && t->data && h->backend_buffer_is_host(b);
}

static bool is_weight(const struct tap_ggml_host *h, const struct td_ggml_tensor *t)
{
    struct td_ggml_buffer *b = buffer_of(t);

    return b && h->backend_buffer_get_usage(b) == TD_GGML_USAGE_WEIGHTS;
}

/* Describe a tensor, with no more dimensions than it needs but at least min. False: a fixture
 * cannot say where its elements lie. */
static bool describe_operand(const struct tap_ggml_host *h, const struct td_ggml_tensor *t,
                             const char *role, int min, struct tap_operand *o)
{
    int64_t block = h->blck_size(t->type), size = (int64_t)h->type_size(t->type);
    bool empty = !has_elements(t);
    int i, ndim = TD_GGML_DIMS;

    *o = (struct tap_operand){.role = role, .dtype = format_of(h, t->type, NULL)};
    if (block <= 0 || size <= 0 || t->ne[0] % block || !o->dtype)
        return false;
    while (ndim > min && t->ne[ndim - 1] == 1)
        ndim--;
    o->ndim = ndim;
    for (i = 0; i < ndim; i++) {
        if (t->nb[i] % (size_t)size)
            return false;
        o->shape[ndim - 1 - i] = i ? t->ne[i] : t->ne[0] / block;
        o->strides[ndim - 1 - i] = (int64_t)(t->nb[i] / (size_t)size);
    }
    if (readable(h, t) && !empty) {
        o->data = t->data;
        o->bytes = h->nbytes(t);
    }
    return true;
}

static void add_attr(struct tap_call *call, const char *name, int64_t value)
{
    call->attrs[call->n_attrs++] = (struct td_attr_view){name, value};
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* How weights lie: as in the GGUF file, or repacked in a buffer whose name says how ("CPU_REPACK"):
 * only ggml's own kernels understand those bytes. */
static const char *layout_of(const struct tap_ggml_host *h, const struct td_ggml_tensor *w)
{
    return readable(h, w) ? "gguf" : h->backend_buffer_name(buffer_of(w));
}

static bool describe_product(const struct tap_ggml_host *h, const struct td_ggml_tensor *t,
                             struct tap_call *call)
{
    const struct td_ggml_tensor *w = t->src[0], *a = t->src[1];
    bool weight = is_weight(h, w);

    call->kind = "ggml_mul_mat";
    call->name = weight ? w->name : t->name;
    format_of(h, w->type, &call->rounding);
    call->layout = weight ? layout_of(h, w) : NULL;
    add_attr(call, "m", a->ne[1]);
    add_attr(call, "n", w->ne[1]);
    add_attr(call, "k", w->ne[0]);
    call->rows = a->ne[1];
    call->n_in = weight ? 1 : 2;
    call->n_w = weight;
    return describe_operand(h, a, "a", 2, &call->in[0]) &&
           describe_operand(h, w, "w", 2, weight ? &call->w[0] : &call->in[1]) &&
           call->in[0].data && (weight || call->in[1].data);
}

static const char *const source_role[TD_GGML_SRC] = {"s0", "s1", "s2", "s3", "s4",
                                                "s5", "s6", "s7", "s8", "s9"};
static const char *const param_name[TD_GGML_PARAMS] = {"p0",  "p1",  "p2",  "p3", "p4",  "p5",
                                                  "p6",  "p7",  "p8",  "p9", "p10", "p11",
                                                  "p12", "p13", "p14", "p15"};

static bool describe_source(const struct tap_ggml_host *h, const struct td_ggml_tensor *t, int i,
                            struct tap_call *call)
{
    const struct td_ggml_tensor *s = t->src[i];
    bool weight = is_weight(h, s) && call->n_w < TAP_MAX_WEIGHTS;
    struct tap_operand *o = weight ? &call->w[call->n_w++] : &call->in[call->n_in++];

    if (weight && (!call->layout || !readable(h, s)))
        call->layout = layout_of(h, s);
    if (weight && !readable(h, s))
        call->name = s->name;          /* its bytes can only be had by this name */
    return describe_operand(h, s, source_role[i], 1, o) && (weight || o->data || !has_elements(s));
}

/* The source that the result is a view of: what the op does not write there stays as it was. -1:
 * none of the inputs. */
static int viewed_source(const struct td_ggml_tensor *t)
{
    int i;

    for (i = 0; i < TD_GGML_SRC; i++)
        if (t->src[i] && (t->src[i] == t->view_src || t->src[i]->view_src == t->view_src))
            return i;
    return -1;
}

/* llama.cpp reads its cache in multiples of so many rows; the same here makes few shapes, not one
 * for every length. */
#define CACHE_ROWS 256

/* Rows of a K/V cache that count: those behind the last one that SET_ROWS writes play no part, and
 * without this a node per layer would bring the whole cache, twice. 0: the node is no such one. */
static int64_t rows_written(const struct tap_ggml_host *h, const struct td_ggml_tensor *t)
{
    const struct td_ggml_tensor *index = t->src[1], *into = t->src[2];
    int64_t i, at, rows = 0;

    if (strcmp(h->op_name(t->op), "SET_ROWS") || !index || !into || into->data != t->data ||
        memcmp(into->ne, t->ne, sizeof t->ne) || memcmp(into->nb, t->nb, sizeof t->nb) ||
        t->ne[2] != 1 || t->ne[3] != 1 || strcmp(h->type_name(index->type), "i64") ||
        !readable(h, index) || index->nb[0] != sizeof at || index->ne[0] != t->src[0]->ne[1] ||
        index->ne[1] != 1 || index->ne[2] != 1 || index->ne[3] != 1)
        return 0;
    for (i = 0; i < index->ne[0]; i++) {
        memcpy(&at, (const char *)index->data + (size_t)i * sizeof at, sizeof at);
        if (at < 0 || at >= t->ne[1])
            return 0;
        rows = at >= rows ? at + 1 : rows;
    }
    return (rows + CACHE_ROWS - 1) / CACHE_ROWS * CACHE_ROWS;
}

static void shorten(struct tap_operand *o, int64_t rows, size_t row_bytes)
{
    if (o->ndim != 2 || !o->data || rows >= o->shape[0])
        return;
    o->bytes -= (uint64_t)(o->shape[0] - rows) * row_bytes;
    o->shape[0] = rows;
}

static void leave_out_rows(const struct tap_ggml_host *h, const struct td_ggml_tensor *t,
                           struct tap_call *call)
{
    int64_t rows = rows_written(h, t);
    int i;

    if (!rows)
        return;
    shorten(&call->out, rows, t->nb[1]);
    for (i = 0; i < call->n_in; i++)
        if (call->in[i].role == source_role[2])
            shorten(&call->in[i], rows, t->nb[1]);
}

static bool describe_other(const struct tap_ggml_host *h, const struct td_ggml_tensor *t,
                           struct tap_call *call, struct tap_ggml_words *words)
{
    const char *op = h->op_name(t->op);
    size_t n = (size_t)snprintf(words->kind, sizeof words->kind, "ggml_");
    int i;

    for (; *op && n + 1 < sizeof words->kind; op++)
        words->kind[n++] = (char)tolower((unsigned char)*op);
    if (*op)
        return false;                  /* half a kind is another kind */
    words->kind[n] = '\0';
    call->kind = words->kind;
    call->name = tap_ggml_is_gemm(h, t) && is_weight(h, t->src[0]) ? t->src[0]->name : t->name;
    call->rounding = "none";
    call->rows = t->ne[1];
    for (i = 0; i < TD_GGML_PARAMS; i++)
        if (t->op_params[i])
            add_attr(call, param_name[i], t->op_params[i]);
    if (t->view_src)
        add_attr(call, "view_of", viewed_source(t));
    for (i = 0; i < TD_GGML_SRC; i++)
        if (t->src[i] && !describe_source(h, t, i, call))
            return false;
    return true;
}

bool tap_ggml_describe(const struct tap_ggml_host *h, const struct td_ggml_tensor *t,
                       struct tap_call *call, struct tap_ggml_words *words)
{
    bool is_product = tap_ggml_is_gemm(h, t) && !strcmp(h->op_name(t->op), "MUL_MAT");

    memset(call, 0, sizeof *call);
    call->symbol = h->op_desc(t);
    if (!(is_product ? describe_product(h, t, call) : describe_other(h, t, call, words)))
        return false;
    if (!describe_operand(h, t, "c", is_product ? 2 : 1, &call->out) || !call->out.data)
        return false;
    if (!is_product)
        leave_out_rows(h, t, call);
    return true;
}
