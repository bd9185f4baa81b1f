/* read_weights.h - weight sets: put together from chunks, stored at the first op that uses them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CLIENT_READ_WEIGHTS_H
#define TD_RECORDER_TAP_CLIENT_READ_WEIGHTS_H

#include "recorder/tap_client/store_weights.h"

/* Read a chunk of a weight set. rec : a copy of the record's head; data : what follows the head in
 * the ring. False: the record does not hold together. The lock is held. */
bool client_read_chunk(struct td_tap_client *c, struct client_ring *r, const struct tap_weight *rec,
                       const uint8_t *data);

/* Find the weight set of an op; identify and store it if the op is the first to use it. 0, with
 * *set NULL: the op has no weights. TD_ECORRUPT: the record does not hold together; TD_ELIMIT: more
 * sets than a server has; others: the op is lost. *set lives as long as the ring. The lock is
 * held. */
int client_op_weights(struct td_tap_client *c, struct client_ring *r, const struct client_op *op,
                      const struct client_weight_set **set);

void client_weights_release(struct client_ring *r);

#endif
