/* tap_options.h - what the options of `record` mean for the tap client.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_OPTIONS_H
#define TD_RECORDER_TAP_OPTIONS_H

#include "recorder/record_options.h"

/* Of a server of this kind. The caller adds the writer, and how rows are named. What the options point
 * at is borrowed. */
struct td_tap_client_options td_tap_options_of(const struct td_record_options *o, enum td_api_kind kind);

#endif
