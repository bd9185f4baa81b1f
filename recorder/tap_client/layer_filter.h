/* layer_filter.h - the list of `record --layers`: which layers are wanted.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CLIENT_LAYER_FILTER_H
#define TD_RECORDER_TAP_CLIENT_LAYER_FILTER_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

/* "0-3,mlp.down_proj,8.*_proj,blk.0.attn_*.weight": items, separated by commas. A layer is wanted
 * when one item fits its name.
 *   item    RANGE, NAME or RANGE.NAME
 *   RANGE   "3" or "0-3": the layer's number. That is the first part of its name that is all digits
 *           ("model.layers.3.mlp.down_proj", "blk.3.ffn_down.weight"), or the digits at its end
 *           behind a hyphen ("ffn_out-3")
 *   NAME    parts of the name between dots, one after the other, anywhere in it; or all of the
 *           name. * and ? stand for any letters within a part. With a RANGE: parts behind the
 *           number */
struct td_layer_filter;

/* Parse a list. TD_EINVAL: too many items or parts, an empty part, or a range that ends before it
 * begins. */
int td_layer_filter_new(const char *text, struct td_layer_filter **out, struct td_error *err);
/* Check the text only. */
int td_layer_filter_check(const char *text, struct td_error *err);
void td_layer_filter_free(struct td_layer_filter *f);      /* NULL is allowed */
/* Is this layer wanted? NULL: a layer without a name is not. Items that fit are marked as used. */
bool td_layer_filter_wants(struct td_layer_filter *f, const char *name);
/* List the items that fitted no name so far, separated by commas. False: there is none. */
bool td_layer_filter_unused(const struct td_layer_filter *f, char *to, size_t n);

#endif
