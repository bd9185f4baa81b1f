/* wanted_layers.h - record the ops of wanted layers only (--layers).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Ops of other layers are dropped, and the tap is told to copy no more of them. */
#ifndef TD_RECORDER_TAP_CLIENT_WANTED_LAYERS_H
#define TD_RECORDER_TAP_CLIENT_WANTED_LAYERS_H

#include "recorder/tap_client/client_state.h"

/* Is the layer of this name wanted? NULL: it has no name, and is wanted only without --layers. The
 * lock is held. */
bool client_wants_layer(struct td_tap_client *c, const char *layer);
/* Let the tap copy no more ops with the weight set of that number; 0: none. */
void client_refuse_weight(struct client_ring *r, uint32_t weight);
/* Describe what --layers did not find: items that fit no layer's name, ops without a name. False:
 * nothing. The lock is held. */
bool client_report_layers(struct td_tap_client *c, char *to, size_t n);

#endif
