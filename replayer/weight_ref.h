/* weight_ref.h - the bytes of a weight that was kept as a reference: tensors of a checkpoint or slices of them, stacked and converted as its transforms say.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_WEIGHT_REF_H
#define TD_REPLAYER_WEIGHT_REF_H

#include "format/records.h"
#include "model/gguf.h"
#include "model/safetensors.h"

#define TD_WEIGHT_REF_MAX 16 /* tensors stacked into one */

/* t->ref names the tensors and the transforms (docs/format.md): "awq-qweight" or "awq-qzeros", "stack", then the name of a floating dtype.
 *   where : how the checkpoint is called in sentences      *data : malloc'd, *size bytes; dense
 * Whether they are the bytes that the server used only their hash tells: the caller checks it.
 * TD_ENOTFOUND: a tensor is not there; TD_EUNSUPPORTED: a slice that they do not have, a transform of a later version; TD_EINVAL: they do not make up
 * t's shape; TD_ENOMEM. */
int td_weight_ref_load(const struct td_safetensors *st, const char *where,
                       const struct td_tensor_rec *t, void **data, size_t *size,
                       struct td_error *err);
/* The same of a GGUF file: one whole tensor, as it lies there. TD_EUNSUPPORTED: the reference says more. */
int td_weight_ref_load_gguf(const struct td_gguf *g, const char *where,
                            const struct td_tensor_rec *t, void **data, size_t *size,
                            struct td_error *err);

#endif
