/* read_ops.h - ops as the tap sends them, into the fixture.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CLIENT_READ_OPS_H
#define TD_RECORDER_TAP_CLIENT_READ_OPS_H

#include "recorder/tap_client/client_state.h"

/* Read one op. rec : a copy of the head of the record, which lies at `at`. False: the record does
 * not hold together. An op that cannot be written is counted as dropped. The lock is held. */
bool client_read_op(struct td_tap_client *c, struct client_tap *tap, struct client_ring *r,
                    const struct tap_op *rec, const uint8_t *at);

#endif
