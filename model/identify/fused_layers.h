/* fused_layers.h - layers that a server stacks into one when it loads them (q, k and v).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_MODEL_IDENTIFY_FUSED_LAYERS_H
#define TD_MODEL_IDENTIFY_FUSED_LAYERS_H

#define TD_FUSED_PARTS 3
#define TD_FUSED_NAME 512

struct td_fused {
    char layer[TD_FUSED_NAME];                 /* "model.layers.1.self_attn.qkv_proj" */
    char part[TD_FUSED_PARTS][TD_FUSED_NAME];  /* "model.layers.1.self_attn.q_proj" ..., in the
                                                  order of their outputs */
    int n;
};

/* Name the stacked layer whose first part is the layer `name`, as vLLM's model classes name it
 * (packed_modules_mapping of its Llama and of all that inherit it; w13_weight of its experts). 1; 0: no stacked layer begins
 * with this one, or a name is too long. */
int td_fused_from(const char *name, struct td_fused *out);
/* Describe the layer by itself in the same form. 0: its name is too long. */
int td_fused_single(const char *name, struct td_fused *out);

#endif
