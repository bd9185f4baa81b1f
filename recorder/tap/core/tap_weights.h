/* tap_weights.h - the weights of a layer, which are equal from call to call: sent once an arm, in
 * chunks.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A thread knows the weights of a layer again by their addresses, their description and a sample of
 * their content. For a slot's owner, with the slot entered. Nothing here allocates, waits or
 * changes errno. */
#ifndef TD_RECORDER_TAP_CORE_TAP_WEIGHTS_H
#define TD_RECORDER_TAP_CORE_TAP_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "recorder/tap/core/tap_call_desc.h"
#include "recorder/tap/core/tap_ring_slot.h"

#pragma GCC visibility push(hidden)

/* Send what is missing of the call's weights. True: they went over completely; *id is the number of
 * their set, 0 when there is nothing to send. False: *id was refused by the recorder, or what does
 * not fit now goes with the next call of this layer. */
bool tap_weights_send(struct tap_ring_slot *s, const struct tap_call *call, uint32_t *id);

/* The recorder wants no ops with these weights. */
bool tap_weights_are_refused(const struct tap_ring_slot *s, uint32_t id);

/* Write the head of a record of a chunk: bytes [offset, offset + len) of the set's stream, `bytes`
 * of each tensor. Returns where the len bytes go; *size of the record is then to be published.
 * NULL: no room. */
void *tap_weights_chunk(struct tap_ring_slot *s, uint32_t id, const uint64_t bytes[TAP_MAX_WEIGHTS],
                        uint64_t offset, uint64_t len, uint64_t *size);

#pragma GCC visibility pop
#endif
