/* op.c - ops in memory: attributes and tensors by name, the kinds of op by name.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/op.h"

#include <stdlib.h>
#include <string.h>

int64_t td_op_attr(const struct td_op_call *op, const char *name, int64_t missing)
{
    for (int i = 0; i < op->n_attrs; i++)
        if (!strcmp(op->attrs[i].name, name))
            return op->attrs[i].value;
    return missing;
}

const struct td_tensor *td_op_in(const struct td_op_call *op, const char *role)
{
    for (int i = 0; i < op->n_in; i++)
        if (!strcmp(op->in[i].role, role))
            return &op->in[i];
    return NULL;
}

void td_op_ref_release(struct td_op_ref *ref)
{
    if (ref->r1 != ref->r0)
        free(ref->r1);
    free(ref->r0);
    free(ref->mag);
    memset(ref, 0, sizeof *ref);
}

#define TD_KIND(kind) extern const struct td_op_kind td_##kind##_kind;
#include "kernels/kernels.def"

static const struct td_op_kind *const kinds[] = {
#define TD_KIND(kind) &td_##kind##_kind,
#include "kernels/kernels.def"
};

/* A node of ggml's graph: who runs it looks at its tensors; here only what every node has. */
static int check_node(const struct td_op_call *op, struct td_error *err)
{
    if (op->n_in > 10)
        return td_fail(err, TD_EINVAL, "%s: %d inputs, a node of ggml has at most 10", op->kind, op->n_in);
    for (int t = -1; t < op->n_in; t++) {
        const struct td_tensor *x = t < 0 ? &op->out : &op->in[t];

        if (x->ndim < 0 || x->ndim > 4)
            return td_fail(err, TD_EINVAL, "%s: %s has %d dimensions, a tensor of ggml has at most 4", op->kind, x->role, x->ndim);
    }
    return 0;
}

static const struct td_op_kind ggml_node = {"ggml_*", check_node, NULL};

const struct td_op_kind *td_op_kind_find(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i]->name, name))
            return kinds[i];
    return !strncmp(name, "ggml_", 5) && strcmp(name, "ggml_mul_mat") ? &ggml_node : NULL;
}
