/* moe_experts.h - identify the experts of a mixture, which a server has in one tensor.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A server has all experts of a layer in one tensor, and gate and up of an expert stacked; a
 * checkpoint has each expert's matrices by themselves. What differs from kernel to kernel is how
 * one expert lies: a layout says it. */
#ifndef TD_MODEL_IDENTIFY_MOE_EXPERTS_H
#define TD_MODEL_IDENTIFY_MOE_EXPERTS_H

#include "model/gptq_unpacked.h"
#include "model/identify/fused_layers.h"
#include "model/identify/weight_set.h"

struct td_experts_sizes { int64_t experts, n, k, groups; int bits; };

/* The tensors of all experts, as they were sent, borrowed; NULL: there is none of that role. */
struct td_experts_sent {
    const void *qweight, *qzeros;
    const uint16_t *scales, *bias;
    const int32_t *g_idx, *perm;
    enum td_dtype scale_dtype, bias_dtype;
    int zero_offset;                   /* 1: qzeros hold the zero points less one */
};

struct td_experts_layout {
    const char *kernel;                /* "Marlin", for sentences */
    /* Find the tensors of *s, in exactly the sizes of *x. qweight and scales are there after 0. */
    int (*read)(const struct td_weight_set *s, const struct td_experts_sizes *x,
                struct td_experts_sent *in, struct td_error *err);
    /* Expert e into *w, which is made for these sizes, and its bias into bias [n] if there is one.
     * A w->g_idx is malloc's. */
    int (*unpack)(const struct td_experts_sizes *x, const struct td_experts_sent *in, int64_t e,
                  struct td_gptq_unpacked *w, uint16_t *bias, struct td_error *err);
};

/* An optional tensor: *data, or NULL. False: it was sent in another form than asked for. */
bool td_experts_take(const struct td_weight_set *s, const char *role, const char *dtype, int ndim,
                     const int64_t *shape, const void **data);

/* The layer of the e-th expert behind that of `first`: "….experts.3.gate_proj". False: `first` is no
 * expert's, or the name is too long. */
bool td_experts_layer(const struct td_fused *first, int64_t e, struct td_fused *layer);
/* The name of all of them: "model.layers.0.mlp.experts.gate_up_proj"; "" if `first` is no expert's. */
void td_experts_name(const struct td_fused *first, char *name, size_t size);

/* Unpack all experts, which become the output of s; if the checkpoint has them one after the other,
 * they get the layer's name, and references unless a rank has a part of each. Returns as an
 * identifier does. */
int td_identify_experts(struct td_weight_set *s, const struct td_experts_layout *layout,
                        struct td_error *err);

#endif
