/* op_kind.h - what Tapedeck knows about one kind of op: how to check an op of it, and its right answer.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A kind is a file kernels/ops/<kind>_kind.c that defines td_<kind>_kind, and a TD_KIND line in
 * kernels.def. op_kinds.h finds a kind by its name. */
#ifndef TD_KERNELS_OPS_OP_KIND_H
#define TD_KERNELS_OPS_OP_KIND_H

#include "kernels/ops/op.h"

struct td_op_kind {
    const char *name;
    /* 0: fit to run. TD_EINVAL, TD_EUNSUPPORTED with a sentence: a role is missing, a shape does not
     * fit, this version does not know a group size, dtype or rounding. */
    int (*check)(const struct td_op_call *op, struct td_error *err);
    /* Check, then fill *ref, which the caller releases. NULL: the kind has no reference, so that
     * outputs can only be compared with each other. */
    int (*reference)(const struct td_op_call *op, struct td_op_ref *ref, struct td_error *err);
};

#endif
