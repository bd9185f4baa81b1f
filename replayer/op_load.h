/* op_load.h - from an op's record to an op in memory: blobs fetched, checkpoints looked up, weights shared between ops.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_OP_LOAD_H
#define TD_REPLAYER_OP_LOAD_H

#include "format/fixture.h"
#include "kernels/ops/op.h"

struct td_op_loader;

/* checkpoint: where checkpoints lie now, or NULL: where the records say. fx and checkpoint are borrowed for the loader's life. */
struct td_op_loader *td_op_loader_new(struct td_fixture *fx, const char *checkpoint); /* NULL: out of memory */
void td_op_loader_free(struct td_op_loader *l);

/* What an op holds on to in the loader, until td_op_loader_put(). */
struct td_op_hold { struct td_hash keys[TD_OP_MAX_TENSORS + 1]; int n; };

/* Fill *op; tensors borrow memory of the loader as long as *hold is held. op->out.data is NULL.
 *   recorded : the recorded output's bytes (in the loader's memory), or NULL when only its hash is known
 * TD_ENOTFOUND, TD_ECORRUPT, TD_EINVAL ...: this op is broken, the sentence says why; nothing is held then. */
int td_op_loader_get(struct td_op_loader *l, const struct td_op *rec, struct td_op_call *op,
                     const void **recorded, struct td_op_hold *hold, struct td_error *err);
void td_op_loader_put(struct td_op_loader *l, struct td_op_hold *hold); /* a zeroed hold is allowed */

#endif
