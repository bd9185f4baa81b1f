/* tap_ggml_check.c - check that this ggml lays out its tensors as the tap declares them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It is asked before the first tensor of its own is read. First its functions that only look at a
 * tensor, on memory of ours with room to spare: another layout gives a wrong answer there, not a
 * crash. Then ggml builds a few nodes itself, which shows the fields that no function returns (src,
 * op_params, view_src, buffer). */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "recorder/tap/ggml/tap_ggml_check.h"

#define ARENA (64u << 10)
#define AREA 4096u                     /* a buffer of ggml's, aligned to that */

static const char *find_functions(struct tap_ggml_host *h, void *handle, char *why, size_t n)
{
#define FIND(result, name, args) \
    if (!(h->name = (result (*) args)dlsym(handle, "ggml_" #name))) { \
        snprintf(why, n, "this ggml has no ggml_" #name); \
        return why; \
    }
    TD_GGML_TAP_NEEDED(FIND)
    return NULL;
}

static const char *check_own_memory(const struct tap_ggml_host *h, char *why, size_t n)
{
    union { struct td_ggml_tensor t; char room[1024]; } probe = {.room = {0}};
    struct td_ggml_tensor *t = &probe.t;
    size_t size = h->tensor_overhead();

    if (size != TD_GGML_OBJECT + sizeof *t) {
        snprintf(why, n, "struct ggml_tensor of this ggml has %zu bytes, not %zu",
                 size - TD_GGML_OBJECT, sizeof *t);
        return why;
    }
    if (h->get_name(t) != t->name)
        return "the name of a ggml_tensor lies elsewhere";
    t->data = why;
    if (h->get_data(t) != why)
        return "the data of a ggml_tensor lies elsewhere";
    memcpy(t->ne, (int64_t[]){3, 5, 7, 11}, sizeof t->ne);
    memcpy(t->nb, (size_t[]){4, 16, 100, 1000}, sizeof t->nb);
    if (strcmp(h->type_name(0), "f32") || h->nbytes(t) != 4 + 2 * 4 + 4 * 16 + 6 * 100 + 10 * 1000)
        return "type, ne or nb of a ggml_tensor lie elsewhere";
    return NULL;
}

/* The number of MUL_MAT in this host, upwards from 0: its table of names ends somewhere behind
 * that. */
static int number_of_product(const struct tap_ggml_host *h)
{
    int op = 0;

    while (op < 100 && strcmp(h->op_name(op), "MUL_MAT"))
        op++;
    return op;
}

static const char *check_graph(struct tap_ggml_host *h, struct td_ggml_context *ctx,
                               struct td_ggml_tensor *node)
{
    struct td_ggml_graph *graph = h->new_graph_custom(ctx, 16, false);

    h->build_forward_expand(graph, node);
    h->flag = node->flags & TD_GGML_FLAG_COMPUTE;
    return h->graph_n_nodes(graph) != 1 || h->graph_node(graph, 0) != node ||
                   node->flags & ~TD_GGML_FLAG_COMPUTE
               ? "flags of a ggml_tensor lie elsewhere"
               : NULL;
}

static const char *check_product(struct tap_ggml_host *h, struct td_ggml_context *ctx)
{
    struct td_ggml_tensor *a = h->new_tensor_4d(ctx, 0, 4, 3, 1, 1),
                     *b = h->new_tensor_4d(ctx, 0, 4, 2, 1, 1), *c = h->mul_mat(ctx, a, b);
    int i;

    if (c->src[0] != a || c->src[1] != b || c->type || c->ne[0] != 3 || c->ne[1] != 2 ||
        c->ne[2] != 1 || c->ne[3] != 1 || c->nb[1] != 12)
        return "src of a ggml_tensor lies elsewhere";
    for (i = 2; i < TD_GGML_SRC; i++)
        if (c->src[i])
            return "src of a ggml_tensor lies elsewhere";
    if (strcmp(h->op_desc(c), "MUL_MAT") || c->op != number_of_product(h))
        return "op of a ggml_tensor lies elsewhere";
    h->set_name(c, "tapedeck probe");
    if (strcmp(c->name, "tapedeck probe") || c->view_src || c->buffer)
        return "name, view_src or buffer of a ggml_tensor lie elsewhere";
    return check_graph(h, ctx, c);
}

static const char *check_view(const struct tap_ggml_host *h, struct td_ggml_context *ctx)
{
    struct td_ggml_tensor *a = h->new_tensor_4d(ctx, 0, 4, 3, 1, 1), *s = h->scale(ctx, a, 2.5f),
                     *v = h->view_1d(ctx, a, 2, 8);
    float factor;

    memcpy(&factor, s->op_params, sizeof factor);
    if (factor != 2.5f || s->src[0] != a)
        return "op_params of a ggml_tensor lie elsewhere";
    return v->view_src != a || v->view_offs != 8 || v->data != (char *)a->data + 8
               ? "view_src or view_offs of a ggml_tensor lie elsewhere"
               : NULL;
}

static const char *check_buffer(const struct tap_ggml_host *h, struct td_ggml_context *ctx,
                                void *area)
{
    struct td_ggml_buffer *buffer = h->backend_cpu_buffer_from_ptr(area, AREA);
    struct td_ggml_tensor *t = h->new_tensor_4d(ctx, 0, 4, 3, 1, 1);
    const char *why = NULL;

    if (!buffer)
        return "ggml gave no buffer";
    if (t->data || t->buffer)          /* tensor_alloc would abort */
        why = "data or buffer of a ggml_tensor lie elsewhere";
    else if (h->backend_tensor_alloc(buffer, t, area), t->buffer != buffer || t->data != area)
        why = "buffer of a ggml_tensor lies elsewhere";
    else if (!h->backend_buffer_is_host(buffer) ||
             h->backend_buffer_get_usage(buffer) == TD_GGML_USAGE_WEIGHTS)
        why = "ggml says otherwise what its buffers are for";
    h->backend_buffer_free(buffer);
    return why;
}

static const char *check_nodes(struct tap_ggml_host *h)
{
    static _Alignas(AREA) char arena[2][ARENA];
    struct td_ggml_context *with = h->init((struct td_ggml_init){ARENA, arena[0], false});
    struct td_ggml_context *without = h->init((struct td_ggml_init){ARENA - AREA, arena[1], true});
    const char *why = with && without ? NULL : "ggml_init failed";

    if (!why)
        why = check_product(h, with);
    if (!why)
        why = check_view(h, with);
    if (!why)
        why = check_buffer(h, without, arena[1] + ARENA - AREA);
    if (with)
        h->free(with);
    if (without)
        h->free(without);
    return why;
}

const char *tap_ggml_check(struct tap_ggml_host *h, void *handle, char *why, size_t n)
{
    const char *wrong = find_functions(h, handle, why, n);

    if (!wrong)
        wrong = check_own_memory(h, why, n);
    return wrong ? wrong : check_nodes(h);
}
