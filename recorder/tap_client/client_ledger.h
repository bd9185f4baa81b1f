/* client_ledger.h - what the tap client counts in the fixture's ledger.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Nothing is lost in silence. The sums balance: seen = kept + all dropped, of ops and of steps.
 *
 * ops, each with the bytes of A and C
 *   ops.seen  ops.kept
 *   ops.dropped.sampling, .budget, .ring, .threads, .weights, .partial, .failed, .unreadable,
 *     .recorder
 *   ops.dropped.flight       passed the flight recorder and were not dumped
 *   ops.dropped.layers       of layers that --layers does not want
 *   ops.dropped.graph        in CUDA graphs, captured or launched, and not read
 *   ops.dropped.rotation     in CUDA graphs whose twin copies a part of their ops at a time
 * steps
 *   steps.seen  steps.kept
 *   steps.dropped.sampling, .budget, .ring, .threads, .flight, .recorder
 * weight sets, each with its bytes
 *   weights.seen, .matched, .unmatched, .ambiguous, .stored
 *   weights.unwanted         of layers that --layers does not want
 * a GPU
 *   launches.seen, .known    kernels; those that the tap reads
 *   launches.graphs, .graphs_read   graphs; those whose capture was watched
 *   launches.graphs_no_room  graphs that had no twin, for want of memory
 *   launches.graphs_no_twin  graphs of which no twin can be made
 *   twins.made               twins of graphs; the bytes of the GPU that they count for
 *   watch.rests, .rested_ms  how often, and how long, nothing was watched
 *   start.tap_us             microseconds that the tap worked in the server's threads before the arm, where
 *                            operators are registered, weights repacked, graphs captured
 *   flight.kept              dumps of the flight recorder
 * processes
 *   links.lost               a connected process ended
 *   links.left_out           a process with a tap beyond the CLIENT_MAX_TAPS that we connect to
 *   links.disarmed           its tap went to sleep by itself
 *   links.corrupt            a ring did not hold together */
#ifndef TD_RECORDER_TAP_CLIENT_CLIENT_LEDGER_H
#define TD_RECORDER_TAP_CLIENT_CLIENT_LEDGER_H

#include "recorder/tap_client/client_state.h"

/* Count one op or step as seen, and as what became of it. The lock is held, as for all of these. */
void client_ledger_count(struct td_tap_client *c, const char *seen, const char *name,
                         int64_t bytes);
/* Count what the tap's own counters say since the last call: what it dropped before it was sent. */
void client_ledger_update(struct td_tap_client *c, struct client_tap *tap);
/* Note that `what` could not be written, for td_tap_client_close() to return; the first failure
 * stays. rc 0: nothing failed. */
void client_ledger_failure(struct td_tap_client *c, int rc, const char *what);

#endif
