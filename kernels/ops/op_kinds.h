/* op_kinds.h - the kinds of op that this version knows, by name.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Those of kernels.def, and every other "ggml_<op>": a node of ggml's graph with inputs s0 .. s9 and
 * parameters p0 .. p15, which a build of ggml can run, but which has no reference. */
#ifndef TD_KERNELS_OPS_OP_KINDS_H
#define TD_KERNELS_OPS_OP_KINDS_H

#include <stddef.h>

#include "kernels/ops/op_kind.h"

/* NULL: unknown kind. Static storage. */
const struct td_op_kind *td_op_kind_find(const char *name);

/* Is the op fit to run? The kind's own check, and what holds for every kind: its weights lie in a
 * layout that is known. 0, or an error with a sentence (op_kind.h). */
int td_op_check(const struct td_op_kind *kind, const struct td_op_call *op, struct td_error *err);

/* NULL: op is of a kind that has a reference, and fit to run; else why not, in buf[size]. */
const char *td_op_unfit(const struct td_op_call *op, char *buf, size_t size);

#endif
