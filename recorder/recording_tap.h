/* recording_tap.h - find the tap, and record ops while the suite is sent once more.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_RECORDING_TAP_H
#define TD_RECORDER_RECORDING_TAP_H

#include "recorder/recording.h"

/* Connect to the server's tap: fills r->client, or r->no_tap with the reason. TD_ENOTFOUND: there
 * is none, and the options require one. */
int td_recording_find_tap(struct td_recording *r, struct td_error *err);

/* The tapped phase: arm, send the suite, disarm. Nothing without a tap. */
int td_recording_tapped_phase(struct td_recording *r, struct td_error *err);

#endif
