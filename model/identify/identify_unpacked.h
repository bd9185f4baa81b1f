/* identify_unpacked.h - GPTQ weights whose run-time layout was undone: found in the checkpoint, named, referred to.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a server has at run time is a layer of the checkpoint, or several stacked along n (q, k and v; gate and up), or what one rank of a
 * tensor-parallel server has of that: an n-th of the outputs of every part, or an n-th of the inputs. Content decides; sizes say where to look. */
#ifndef TD_MODEL_IDENTIFY_IDENTIFY_UNPACKED_H
#define TD_MODEL_IDENTIFY_IDENTIFY_UNPACKED_H

#include "model/vllm_layout.h"
#include "model/identify/fused_layers.h"
#include "model/identify/identify.h"

#define TD_IDENTIFY_RANKS 64         /* of a tensor-parallel server, at most */

/* How w may differ from the checkpoint's layer. */
#define TD_IDENTIFY_SORTED 1         /* rows may be sorted by the groups of the checkpoint's g_idx (in any order within a group), w->g_idx being NULL */

/* The result takes the arrays of *w over: qweight, qzeros, scales and, where it has one, g_idx; zero_offset becomes the checkpoint's. Attributes zero_offset
 * and act_order are set. Layers without a match have no name. A weight whose rows are sorted is named, and its qweight has no reference. */
void td_identify_weight(struct td_identify *s, struct td_vllm_weight *w, int may);

/* What a settler returns that could not undo a layout (rc): its weights are kept as they were sent; only what cannot be kept is lost. */
int td_identify_unknown(int rc, struct td_error *err);

/* s->t[at] is these tensors, "<part>.<tail>", stacked if they are several and converted if their type, from, was another. */
void td_identify_refer(struct td_identify *s, int at, const struct td_fused *layer, const char *tail, enum td_dtype from);

#endif
