/* ops_causes.h - why ops that were asked for are not all in the fixture, as causes for its manifest.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_OPS_CAUSES_H
#define TD_RECORDER_OPS_CAUSES_H

#include "recorder/record_options.h"

#define TD_OPS_CAUSES 7

struct td_ops_causes { char text[TD_OPS_CAUSES][240]; int n; };

/* Ops that were asked for by name, and ops of which nobody knows how many were lost.
 *   ops     : the final counts
 *   armed   : the taps were armed once
 *   ended   : the recording, or the server, was ended early, so that its processes are gone is said already
 *   failure : why not all that the tap sent was written; "": it was */
void td_ops_causes_find(const struct td_record_options *o, const struct td_tap_client_state *ops, bool armed, bool ended,
                        const char *failure, struct td_ops_causes *out);

#endif
