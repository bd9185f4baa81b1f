/* client_ledger.c - what the tap client counts in the fixture's ledger.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap_client/client_ledger.h"

/* ---- what was sent --------------------------------------------------------------------------- */

void client_ledger_failure(struct td_tap_client *c, int rc, const char *what)
{
    if (rc)
        td_fail(&c->failed, rc, "the tap's %s could not be written to the fixture", what);
}

void client_ledger_count(struct td_tap_client *c, const char *seen, const char *name, int64_t bytes)
{
    td_writer_count(c->opt.writer, seen, 1, bytes);
    td_writer_count(c->opt.writer, name, 1, bytes);
}

/* ---- what the tap counted -------------------------------------------------------------------- */

/* Where each counter of the tap goes. Ops and steps that were sent are not here: they are counted
 * when they are written. */
static const struct { const char *seen, *name; } counted[TAP_COUNTS] = {
    [TAP_OPS_SAMPLING] = {"ops.seen", "ops.dropped.sampling"},
    [TAP_OPS_BUDGET] = {"ops.seen", "ops.dropped.budget"},
    [TAP_OPS_RING] = {"ops.seen", "ops.dropped.ring"},
    [TAP_OPS_WEIGHTS] = {"ops.seen", "ops.dropped.weights"},
    [TAP_OPS_PARTIAL] = {"ops.seen", "ops.dropped.partial"},
    [TAP_OPS_FAILED] = {"ops.seen", "ops.dropped.failed"},
    [TAP_OPS_THREADS] = {"ops.seen", "ops.dropped.threads"},
    [TAP_OPS_UNREADABLE] = {"ops.seen", "ops.dropped.unreadable"},
    [TAP_OPS_GRAPH] = {"ops.seen", "ops.dropped.graph"},
    [TAP_OPS_FLIGHT] = {"ops.seen", "ops.dropped.flight"},
    [TAP_OPS_LAYERS] = {"ops.seen", "ops.dropped.layers"},
    [TAP_OPS_ACTIVATIONS] = {"ops.seen", "ops.dropped.activations"},
    [TAP_OPS_ROTATION] = {"ops.seen", "ops.dropped.rotation"},
    [TAP_STEPS_FLIGHT] = {"steps.seen", "steps.dropped.flight"},
    [TAP_STEPS_GRAPH] = {"steps.seen", "steps.dropped.graph"},
    [TAP_STEPS_SAMPLING] = {"steps.seen", "steps.dropped.sampling"},
    [TAP_STEPS_BUDGET] = {"steps.seen", "steps.dropped.budget"},
    [TAP_STEPS_RING] = {"steps.seen", "steps.dropped.ring"},
    [TAP_STEPS_THREADS] = {"steps.seen", "steps.dropped.threads"},
    [TAP_LAUNCHES] = {NULL, "launches.seen"},
    [TAP_LAUNCHES_KNOWN] = {NULL, "launches.known"},
    [TAP_GRAPHS] = {NULL, "launches.graphs"},
    [TAP_GRAPHS_READ] = {NULL, "launches.graphs_read"},
    [TAP_GRAPHS_NO_ROOM] = {NULL, "launches.graphs_no_room"},
    [TAP_GRAPHS_NO_TWIN] = {NULL, "launches.graphs_no_twin"},
    [TAP_TWINS] = {NULL, "twins.made"},
    [TAP_RESTS] = {NULL, "watch.rests"},
    [TAP_RESTED_MS] = {NULL, "watch.rested_ms"},
    [TAP_SPENT_US] = {NULL, "start.tap_us"},
};

#define MOST_SHOWN ((int64_t)1 << 40) /* of one change: sums of it do not overflow */

/* Some counters are shown while the recording runs. */
static void add_to_state(struct td_tap_client_state *state, enum tap_count i, int64_t n)
{
    n = n < MOST_SHOWN ? n : MOST_SHOWN;
    if (i < TAP_STEPS_SENT)
        state->ops_dropped += n;
    switch (i) {
    case TAP_LAUNCHES: state->launches += n; break;
    case TAP_GRAPHS: state->graphs += n; break;
    case TAP_GRAPHS_READ: state->graphs_read += n; break;
    case TAP_GRAPHS_NO_ROOM: state->graphs_no_room += n; break;
    case TAP_GRAPHS_NO_TWIN: state->graphs_no_twin += n; break;
    case TAP_TWINS: state->twins += n; break;
    case TAP_OPS_SAMPLING: state->ops_sampling += n; break;
    case TAP_OPS_BUDGET: state->ops_budget += n; break;
    case TAP_OPS_WEIGHTS: state->ops_weights += n; break;
    case TAP_OPS_LAYERS: state->ops_layers += n; break;
    case TAP_OPS_GRAPH: state->ops_graph += n; break;
    case TAP_OPS_ROTATION: state->ops_rotation += n; break;
    case TAP_OPS_RING: state->ops_ring += n; break;
    case TAP_RESTED_MS: state->rested_ms += n; break;
    default: break;
    }
}

/* Of ops, steps and launches: nothing of a rehearsal is recorded, and so nothing of it is missing. */
static bool is_of_ops(enum tap_count i)
{
    return i != TAP_TWINS && i != TAP_SPENT_US;
}

static void count_change(struct td_tap_client *c, enum tap_count i, int64_t n, int64_t bytes)
{
    if (counted[i].seen)
        td_writer_count(c->opt.writer, counted[i].seen, n, bytes);
    td_writer_count(c->opt.writer, counted[i].name, n, bytes);
    add_to_state(&c->state, i, n);
}

/* Count what was added to the tap's counters `now` since `before`, and bring that up to date. A
 * counter that fell is ignored: the tap's process may write anything. */
static void count_changes(struct td_tap_client *c, struct tap_counter *now,
                          struct tap_counter *before)
{
    int i;

    for (i = 0; i < TAP_COUNTS; i++) {
        uint64_t n = atomic_load_explicit(&now[i].n, memory_order_relaxed);
        uint64_t bytes = atomic_load_explicit(&now[i].bytes, memory_order_relaxed);
        int64_t dn = (int64_t)(n - before[i].n), db = (int64_t)(bytes - before[i].bytes);

        if (!counted[i].name || dn < 0 || db < 0 || (!dn && !db))
            continue;
        if (!c->outputs.rehearses || !is_of_ops((enum tap_count)i))
            count_change(c, (enum tap_count)i, dn, db);
        before[i].n = n;
        before[i].bytes = bytes;
    }
}

void client_ledger_update(struct td_tap_client *c, struct client_tap *tap)
{
    uint32_t i;

    if (!tap->shared)
        return;
    count_changes(c, tap->shared->counts, tap->seen);
    for (i = 0; i < tap->rings; i++)
        count_changes(c, tap->ring[i].shared->counts, tap->ring[i].seen);
}
