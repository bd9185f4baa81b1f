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

bool td_op_input_is_of_the_call(const char *role)
{
    static const char *const roles[] = {"a", "a_scales", "azp", "sorted_token_ids", "expert_ids", "num_tokens_post_padded", "topk_weights",
                                        "expert_offsets", "problem_sizes", "residual", "positions", "key"};
    size_t i;

    for (i = 0; i < sizeof roles / sizeof *roles; i++)
        if (!strcmp(role, roles[i]))
            return true;
    return false;
}

bool td_op_ref_has_row(const struct td_op_ref *ref, int64_t row)
{
    return !ref->unjudged || !ref->unjudged[row];
}

void td_op_ref_release(struct td_op_ref *ref)
{
    if (ref->r1 != ref->r0)
        free(ref->r1);
    free(ref->r0);
    free(ref->mag);
    free(ref->slack);
    free(ref->ordered);
    free(ref->unjudged);
    memset(ref, 0, sizeof *ref);
}
