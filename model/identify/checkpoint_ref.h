/* checkpoint_ref.h - note beside a tensor where a checkpoint holds the same bytes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * docs/format.md describes it: "ref" of a tensor. */
#ifndef TD_MODEL_IDENTIFY_CHECKPOINT_REF_H
#define TD_MODEL_IDENTIFY_CHECKPOINT_REF_H

#include "model/dtype.h"
#include "model/identify/fused_layers.h"
#include "model/identify/weight_set.h"

/* Set rec->ref: the bytes with this hash are these tensors of the checkpoint.
 *   checkpoint : its folder, or a GGUF file
 *   tensors    : [n] names
 *   transform  : "stack" and the like, or NULL */
void td_checkpoint_ref_set(struct td_tensor_rec *rec, const char *checkpoint,
                           const char *const *tensors, int n, const char *transform,
                           struct td_hash hash);

/* The same for output tensor `at` of a set: the tensors "<part>.<tail>" of the layer's parts,
 * stacked when there are several.
 *   from : their type in the checkpoint; the server converted it when the tensor has another. */
void td_checkpoint_ref_layer(struct td_weight_set *s, int at, const struct td_fused *layer,
                             const char *tail, enum td_dtype from);

/* rec->ref, whose names have a '*' in the place of an expert's number, is that of `count` experts from
 * number `from` on, one behind the other. */
void td_checkpoint_ref_experts(struct td_tensor_rec *rec, int64_t from, int64_t count);

/* A part of a tensor of two dimensions: `count` rows or columns of it, from one on. */
struct td_ref_range { int64_t from, count; };

/* Set the slice of rec->ref: so much of each of its n tensors. */
void td_checkpoint_ref_slice(struct td_tensor_rec *rec, const struct td_ref_range *rows,
                             const struct td_ref_range *cols, int n);

#endif
