/* identify_unpacked.h - identify weights that were unpacked into GPTQ's layout.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_MODEL_IDENTIFY_IDENTIFY_UNPACKED_H
#define TD_MODEL_IDENTIFY_IDENTIFY_UNPACKED_H

#include "model/identify/weight_set.h"
#include "model/gptq_unpacked.h"

/* Allocate w in the sizes that the attributes of the op say.
 *   kernel : "Marlin", for the sentence
 * TD_EINVAL: the kernel cannot have such sizes; TD_ENOMEM. */
int td_identify_begin(const struct td_weight_set *s, const char *kernel, struct td_gptq_unpacked *w,
                      struct td_error *err);

/* Make w the output of s: qweight, qzeros, scales and, where it has one, g_idx; attributes
 * zero_offset and act_order. If the checkpoint has a layer with this content, qzeros get its
 * zero_offset, and the tensors references; exactly one such layer names the set.
 *   w           : the set takes its arrays; zeroed afterwards
 *   marlin      : w may be what vLLM makes of a layer for Marlin. Its rows may be sorted by the
 *                 groups of the checkpoint's g_idx, in any order within a group: such a weight is
 *                 named, and its qweight has no reference. Or it may be padded: then it is named,
 *                 and has no references */
void td_identify_unpacked(struct td_weight_set *s, struct td_gptq_unpacked *w, bool marlin);

/* Identify weights by a function that unpacks them into *w, made in the sizes of the op, as an identifier does:
 * td_identify_begin(), unpack, td_identify_unpacked(). */
typedef int td_identify_unpack(const struct td_weight_set *s, struct td_gptq_unpacked *w, struct td_error *err);
int td_identify_by(struct td_weight_set *s, const char *kernel, td_identify_unpack *unpack, bool marlin, struct td_error *err);

/* The same of a weight whose qweight is not known but for the sample s->fingerprint: it is taken
 * from the layer with that content, if the values that were sent can be its own in another order.
 *   scaled_zeros : not NULL: nor are its qzeros, but for these (gptq_match.h)
 * TD_EUNSUPPORTED: there is none; TD_ENOMEM. */
int td_identify_sampled(struct td_weight_set *s, struct td_gptq_unpacked *w, bool sorted_rows,
                        const uint16_t *scaled_zeros, struct td_error *err);

/* Map the error of an unpacking function: TD_ENOMEM and TD_ELIMIT stay, others become
 * TD_EUNSUPPORTED, so that the weights are stored as they were sent. 0 stays 0. err, if not NULL,
 * is changed alike. */
int td_identify_unpack_error(int rc, struct td_error *err);

#endif
