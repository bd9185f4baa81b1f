/* layer_filter.h - record --layers: which layers' ops are wanted, by their names.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CLIENT_LAYER_FILTER_H
#define TD_RECORDER_TAP_CLIENT_LAYER_FILTER_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

/* "0-3,mlp.down_proj,8.*_proj,blk.0.attn_*.weight": items with commas between; a layer is wanted when one item fits.
 *   item    RANGE, NAME or RANGE.NAME
 *   RANGE   "3" or "0-3": the layer's number, which is the first part of its name that is all digits ("model.layers.3.mlp.down_proj", "blk.3.ffn_down.weight"),
 *           or the digits at its end, behind a hyphen ("ffn_out-3")
 *   NAME    parts of the name between dots, one after the other anywhere in it, or the whole name; * and ? stand for any letters within a part. With
 *           a RANGE: parts behind the number */
struct td_layer_filter;

/* TD_EINVAL: an empty item, or a range that ends before it begins. */
int td_layer_filter_new(const char *text, struct td_layer_filter **out, struct td_error *err);
int td_layer_filter_check(const char *text, struct td_error *err); /* the same, of the text alone */
void td_layer_filter_free(struct td_layer_filter *f);      /* NULL is allowed */
/* Is this layer wanted? name NULL: it has none, and is not. Items that fit are remembered. */
bool td_layer_filter_wants(struct td_layer_filter *f, const char *name);
/* The items that fitted no name so far, with commas between. False: all did. */
bool td_layer_filter_unused(const struct td_layer_filter *f, char *to, size_t n);

#endif
