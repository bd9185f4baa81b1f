/* speed_server.h - what requests took on both servers, paired by prompt and repeat, as rows of
 * metric and category.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_SPEED_SERVER_H
#define TD_DIFFER_SPEED_SERVER_H

#include "differ/align.h"
#include "differ/policy.h"
#include "differ/speed.h"

/* Add the rows of the exchanges: rounds of both live servers in turn when there are two or more of each, less those that other
 * programs disturbed (speed_others.h); fewer than two of these are not judged. Else the candidate against the starts
 * that the recording holds (speed_starts.h); else against the recording, which is information. TD_OK or TD_ENOMEM. */
int td_speed_server(const struct td_groups *g, const struct td_policy *policy, struct td_speed *out, struct td_error *err);

#endif
