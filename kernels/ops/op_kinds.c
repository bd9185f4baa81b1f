/* op_kinds.c - the table of the kinds of op, from kernels.def.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/op_kinds.h"

#include <stdio.h>
#include <string.h>

#define TD_KIND(kind) extern const struct td_op_kind td_##kind##_kind;
#include "kernels/kernels.def"

static const struct td_op_kind *const kinds[] = {
#define TD_KIND(kind) &td_##kind##_kind,
#include "kernels/kernels.def"
};

/* A node of ggml's graph: only what every node has is checked here. The build that runs it checks
 * its tensors. */
static int check_ggml_node(const struct td_op_call *op, struct td_error *err)
{
    if (op->n_in > 10)
        return td_fail(err, TD_EINVAL, "%s: %d inputs, a node of ggml has at most 10", op->kind, op->n_in);
    for (int t = -1; t < op->n_in; t++) {
        const struct td_tensor *x = t < 0 ? &op->out : &op->in[t];

        if (x->ndim < 0 || x->ndim > 4)
            return td_fail(err, TD_EINVAL,
                           "%s: %s has %d dimensions, a tensor of ggml has at most 4", op->kind,
                           x->role, x->ndim);
    }
    return 0;
}

static const struct td_op_kind ggml_node = {"ggml_*", check_ggml_node, NULL};

const struct td_op_kind *td_op_kind_find(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i]->name, name))
            return kinds[i];
    return !strncmp(name, "ggml_", 5) && strcmp(name, "ggml_mul_mat") ? &ggml_node : NULL;
}

int td_op_check(const struct td_op_kind *kind, const struct td_op_call *op, struct td_error *err)
{
    if (td_op_attr(op, TD_OP_LAYOUT_UNKNOWN, 0))
        return td_fail(err, TD_EUNSUPPORTED,
                       "its weights lie in the layout \"%s\", which could not be undone when they were recorded: record "
                       "with --checkpoint, and with the tap in the server from its start", op->layout);
    return kind->check(op, err);
}

const char *td_op_unfit(const struct td_op_call *op, char *buf, size_t size)
{
    static const char names[] =          /* those that every provider which asks here runs */
#define TD_KIND(kind) " " #kind
#define TD_KIND_BESIDE(kind)
#include "kernels/kernels.def"
        ;
    const struct td_op_kind *kind = td_op_kind_find(op->kind);
    struct td_error err = {0};

    if (!kind || !kind->reference)
        snprintf(buf, size, "ops of kind \"%s\" are not supported; this provider runs%s", op->kind, names);
    else if (td_op_check(kind, op, &err))
        snprintf(buf, size, "%s", err.msg);
    else
        return NULL;
    return buf;
}
