/* weight_ref.h - load a weight that the fixture holds by reference to tensors of a checkpoint.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_WEIGHT_REF_H
#define TD_REPLAYER_WEIGHT_REF_H

#include "format/records.h"
#include "model/gguf.h"
#include "model/safetensors.h"

#define TD_WEIGHT_REF_MAX 16 /* tensors stacked into one */

/* Load the bytes that t->ref describes (docs/format.md): the tensors' names, slices, and transforms
 * ("awq-qweight" or "awq-qzeros", then "stack", then the name of a floating dtype, then "experts").
 *   where : how sentences name the checkpoint
 *   *data : malloc'd, *size bytes, dense
 * Whether these are the bytes that the server used only their hash shows: the caller checks it.
 * TD_ENOTFOUND: a tensor is not there. TD_EUNSUPPORTED: a slice that the tensor does not have, or a
 * transform of a later version. TD_EINVAL: the parts do not make up t's shape. TD_ENOMEM. */
int td_weight_ref_load(const struct td_safetensors *st, const char *where,
                       const struct td_tensor_rec *t, void **data, size_t *size,
                       struct td_error *err);
/* The same for a GGUF file: one complete tensor, as it lies there. TD_EUNSUPPORTED: the reference
 * asks for more. */
int td_weight_ref_load_gguf(const struct td_gguf *g, const char *where,
                            const struct td_tensor_rec *t, void **data, size_t *size,
                            struct td_error *err);

#endif
