/* dropped_ops.h - why ops that the tap saw are not in the fixture, in words, and what helps.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_DROPPED_OPS_H
#define TD_RECORDER_DROPPED_OPS_H

#include "recorder/tap_client/tap_client_options.h"

/* Say what most ops were dropped for, where none was kept: "40 of 48 that the tap saw found no room on
 * the way, so give more (--ring-mib)". The text holds no semicolon. "": the tap saw none. */
void td_dropped_ops_reason(const struct td_tap_client_state *ops, char *to, size_t n);

/* The share of these among all ops that were seen: "2.5 %", "under 0.1 %". */
void td_dropped_ops_share(const struct td_tap_client_state *ops, int64_t dropped, char *to,
                          size_t n);

#endif
