/* wanted_layers.h - --layers: which layers' ops are recorded, and telling the tap to copy no more of the others.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CLIENT_WANTED_LAYERS_H
#define TD_RECORDER_TAP_CLIENT_WANTED_LAYERS_H

#include "recorder/tap_client/client_state.h"

/* Is the layer of this name wanted? NULL: it has no name, and is wanted only without --layers. The lock is held. */
bool client_wants_layer(struct td_tap_client *c, const char *layer);
/* Let the tap copy no more ops with the weight set of that number; 0: none. */
void client_refuse_weight(struct client_ring *r, uint32_t weight);
/* Describe what --layers did not find: items that fit no layer's name, ops without a name. False: nothing. The lock is held. */
bool client_report_layers(struct td_tap_client *c, char *to, size_t n);

#endif
