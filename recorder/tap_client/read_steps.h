/* read_steps.h - steps as the tap sends them, into the fixture.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A step whose rows the server did not name is held until all requests are known; step_rows.h then
 * infers whose they are. With opt.server_ids all steps are held: who sends nothing learns an answer's
 * id when it comes. The lock is held in all of these. */
#ifndef TD_RECORDER_TAP_CLIENT_READ_STEPS_H
#define TD_RECORDER_TAP_CLIENT_READ_STEPS_H

#include "recorder/tap_client/client_state.h"

/* Read one step. rec : a copy of the record's head; data : what follows the head in the ring.
 * False: the record does not hold together. */
bool client_read_step(struct td_tap_client *c, struct client_tap *tap, const struct tap_step *rec,
                      const uint8_t *data);
/* An op came: note how many rows its step has, and when it began. */
void client_note_rows(struct td_tap_client *c, const struct client_tap *tap,
                      const struct client_op *op);
/* Name the rows of the steps that are held. requests : are sorted */
void client_name_held(struct td_tap_client *c, struct td_rows_request *requests, size_t n);
/* Write the steps that are held. */
void client_write_held(struct td_tap_client *c);

#endif
