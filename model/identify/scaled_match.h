/* scaled_match.h - find the layer of a checkpoint that a weight of 8 bits was loaded or made from.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A server loads them as a checkpoint has them, or makes them: of a 16-bit checkpoint, and of one
 * of 8 bits whose layers have a scale each, where it stacks such layers and gives them one scale
 * (vLLM 0.26: layers/quantization/online/fp8.py; requantize_with_max_scale of w8a8_utils.py). What
 * the server made is found by its content: each number is the nearest one to that of the checkpoint
 * divided by the scale. */
#ifndef TD_MODEL_IDENTIFY_SCALED_MATCH_H
#define TD_MODEL_IDENTIFY_SCALED_MATCH_H

#include <stdbool.h>

#include "model/checkpoint.h"
#include "model/identify/fused_layers.h"

#define TD_SCALED_BLOCK 128

/* A matrix [n, k] and its scales: one, one for each row, or one for each block. */
struct td_scaled_matrix {
    const void *data;
    enum td_dtype dtype, scale_dtype;
    const void *scales; /* NULL: the numbers are as they are */
    int64_t n, k;
    enum { TD_SCALED_ONE, TD_SCALED_BY_ROW, TD_SCALED_BY_BLOCK } by;
};

bool td_scaled_is_8bit(enum td_dtype dt);
/* Do the parts of that layer, one under the other, round to w? */
bool td_scaled_layer_makes(const struct td_checkpoint *ck, const struct td_fused *layer,
                           const struct td_scaled_matrix *w);
/* Count the layers, single or stacked, that w was made of; the first becomes *first. */
int td_scaled_find(const struct td_checkpoint *ck, const struct td_scaled_matrix *w,
                   struct td_fused *first);

#endif
