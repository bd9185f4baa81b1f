/* fused_layers.h - layers that a server stacks into one when it loads them: q, k and v; gate and up.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_MODEL_IDENTIFY_FUSED_LAYERS_H
#define TD_MODEL_IDENTIFY_FUSED_LAYERS_H

#define TD_FUSED_PARTS 3
#define TD_FUSED_NAME 512

struct td_fused {
    char layer[TD_FUSED_NAME];                 /* "model.layers.1.self_attn.qkv_proj" */
    char part[TD_FUSED_PARTS][TD_FUSED_NAME];  /* "model.layers.1.self_attn.q_proj" ..., in the order of their outputs */
    int n;
};

/* The stacked layer whose first part is the layer `name`: 1, or 0: this one begins none. Names as vLLM's model classes give them
 * (packed_modules_mapping of its Llama and all that inherit it). */
int td_fused_from(const char *name, struct td_fused *out);
/* The same form for the layer by itself. 0: its name is too long. */
int td_fused_single(const char *name, struct td_fused *out);

#endif
