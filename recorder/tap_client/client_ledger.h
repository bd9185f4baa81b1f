/* client_ledger.h - what the tap client counts in the fixture's ledger, so that nothing is lost in silence.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The sums balance: seen = kept + all dropped, of ops and of steps.
 *   ops.seen  ops.kept  ops.dropped.{sampling,budget,ring,threads,weights,partial,failed,unreadable,recorder}  n, bytes of A and C
 *   ops.dropped.flight, steps.dropped.flight   passed the flight recorder and were not dumped (flight.kept: how often it was dumped)
 *   ops.dropped.layers                         of layers that --layers does not want (weights.unwanted: their weight sets)
 *   ops.dropped.graph                          in CUDA graphs, captured or launched, and not read
 *   launches.seen  launches.known              of a GPU: kernels, and those that the tap reads
 *   launches.graphs  launches.graphs_read      of a GPU: graphs, and those whose capture was watched
 *   watch.rests  watch.rested_ms               how often, and how long, nothing was watched
 *   steps.seen  steps.kept  steps.dropped.{sampling,budget,ring,threads,recorder}
 *   weights.seen  weights.matched  weights.unmatched  weights.ambiguous  weights.stored     weight sets, bytes
 *   links.lost  links.disarmed  links.corrupt  a connected process ended; its tap disarmed itself; its ring did not hold together */
#ifndef TD_RECORDER_TAP_CLIENT_CLIENT_LEDGER_H
#define TD_RECORDER_TAP_CLIENT_CLIENT_LEDGER_H

#include "recorder/tap_client/client_state.h"

/* Count one op or step as seen, and as what became of it. The lock is held, as for all of these. */
void client_ledger_count(struct td_tap_client *c, const char *seen, const char *name, int64_t bytes);
/* Count what the tap's own counters say since the last call: what it dropped before it was sent. */
void client_ledger_update(struct td_tap_client *c, struct client_tap *tap);
/* Note that `what` could not be written, for td_tap_client_close() to return; the first failure stays. rc 0: nothing failed. */
void client_ledger_failure(struct td_tap_client *c, int rc, const char *what);

#endif
