/* op_load.h - load an op into memory, from its record; ops share the memory of equal weights.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_OP_LOAD_H
#define TD_REPLAYER_OP_LOAD_H

#include "format/fixture.h"
#include "kernels/ops/op.h"

struct td_op_loader;

/* A loader for the ops of a fixture.
 *   checkpoint : where the model's checkpoint is now; NULL: where the records say
 * fx and checkpoint are borrowed for the loader's life. NULL: out of memory. */
struct td_op_loader *td_op_loader_new(struct td_fixture *fx, const char *checkpoint);
void td_op_loader_free(struct td_op_loader *l);

/* The loader's tensors that an op uses. They stay in memory until td_op_loader_put(). */
struct td_op_hold {
    struct td_hash keys[TD_OP_MAX_TENSORS + 1]; int n;
    bool damaged;   /* the op needs bytes of blobs.pack that are damaged or gone */
};

/* Fill *op. Its tensors borrow memory of the loader until *hold is put back; op->out.data is NULL.
 *   recorded : the recorded output's bytes, in the loader's memory; NULL: only its hash is known
 * TD_ENOTFOUND, TD_ECORRUPT, TD_EINVAL and others: the op is broken, err says why, and *hold holds
 * nothing. So it is when the recorded output was stored and cannot be read. */
int td_op_loader_get(struct td_op_loader *l, const struct td_op *rec, struct td_op_call *op,
                     const void **recorded, struct td_op_hold *hold, struct td_error *err);
/* Read stored tensors of ops that come next, with so many threads: at most so many bytes, and those of the first op in any case. What
 * cannot be read is left to td_op_loader_get(). Returns of how many ops all were looked at. */
int td_op_loader_read_ahead(struct td_op_loader *l, const struct td_op *const *ops, int n, int threads, uint64_t most_bytes);
/* Free the tensors that no op holds. */
void td_op_loader_forget(struct td_op_loader *l);
/* Let the hold's tensors go. A zeroed hold is allowed. */
void td_op_loader_put(struct td_op_loader *l, struct td_op_hold *hold);

#endif
