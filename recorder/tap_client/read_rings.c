/* read_rings.c - from the rings of a server into the fixture.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What lies in a ring was written by another process, which may be broken or dying: every length is checked before it is used, and a
 * ring that does not hold together is not read any further. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "recorder/tap_client/client_state.h"

void client_keep_failure(struct td_tap_client *l, int rc, const char *what)
{
    if (rc)
        td_fail(&l->failed, rc, "the tap's %s could not be written to the fixture", what);
}

/* ---- ledger -------------------------------------------------------------------------------------------------------- */

static const struct { const char *seen, *name; } counted[TAP_COUNTS] = {
    [TAP_OPS_SAMPLING] = {"ops.seen", "ops.dropped.sampling"},   [TAP_OPS_BUDGET] = {"ops.seen", "ops.dropped.budget"},
    [TAP_OPS_RING] = {"ops.seen", "ops.dropped.ring"},           [TAP_OPS_WEIGHTS] = {"ops.seen", "ops.dropped.weights"},
    [TAP_OPS_PARTIAL] = {"ops.seen", "ops.dropped.partial"},     [TAP_OPS_FAILED] = {"ops.seen", "ops.dropped.failed"},
    [TAP_OPS_THREADS] = {"ops.seen", "ops.dropped.threads"},     [TAP_OPS_UNREADABLE] = {"ops.seen", "ops.dropped.unreadable"},
    [TAP_OPS_GRAPH] = {"ops.seen", "ops.dropped.graph"},         [TAP_OPS_FLIGHT] = {"ops.seen", "ops.dropped.flight"},
    [TAP_OPS_LAYERS] = {"ops.seen", "ops.dropped.layers"},       [TAP_STEPS_FLIGHT] = {"steps.seen", "steps.dropped.flight"},
    [TAP_STEPS_SAMPLING] = {"steps.seen", "steps.dropped.sampling"},
    [TAP_STEPS_BUDGET] = {"steps.seen", "steps.dropped.budget"}, [TAP_STEPS_RING] = {"steps.seen", "steps.dropped.ring"},
    [TAP_STEPS_THREADS] = {"steps.seen", "steps.dropped.threads"},
    [TAP_LAUNCHES] = {NULL, "launches.seen"},                    [TAP_LAUNCHES_KNOWN] = {NULL, "launches.known"},
    [TAP_GRAPHS] = {NULL, "launches.graphs"},                    [TAP_GRAPHS_READ] = {NULL, "launches.graphs_read"},
    [TAP_RESTS] = {NULL, "watch.rests"},                         [TAP_RESTED_MS] = {NULL, "watch.rested_ms"},
}; /* what was sent is counted when it is written: see client_took() */

void client_took(struct td_tap_client *l, const char *seen, const char *name, int64_t bytes)
{
    td_writer_count(l->opt.writer, seen, 1, bytes);
    td_writer_count(l->opt.writer, name, 1, bytes);
}

static void count_one(struct td_tap_client *l, struct tap_counter *now, struct tap_counter *before)
{
    int i;

    for (i = 0; i < TAP_COUNTS; i++) {
        uint64_t n = atomic_load_explicit(&now[i].n, memory_order_relaxed), bytes = atomic_load_explicit(&now[i].bytes, memory_order_relaxed);
        int64_t dn = (int64_t)(n - before[i].n), db = (int64_t)(bytes - before[i].bytes);

        if (!counted[i].name || dn < 0 || db < 0 || (!dn && !db))
            continue;
        if (counted[i].seen)
            td_writer_count(l->opt.writer, counted[i].seen, dn, db);
        td_writer_count(l->opt.writer, counted[i].name, dn, db);
        if (i < TAP_STEPS_SENT)
            l->state.ops_dropped += dn;
        if (i == TAP_LAUNCHES)
            l->state.launches += dn;
        if (i == TAP_GRAPHS)
            l->state.graphs += dn;
        if (i == TAP_GRAPHS_READ)
            l->state.graphs_read += dn;
        if (i == TAP_OPS_GRAPH)
            l->state.ops_graph += dn;
        if (i == TAP_OPS_RING)
            l->state.ops_ring += dn;
        if (i == TAP_RESTED_MS)
            l->state.rested_ms += dn;
        before[i].n = n;
        before[i].bytes = bytes;
    }
}

void client_count(struct td_tap_client *l, struct client_tap *lk)
{
    uint32_t i;

    if (!lk->shared)
        return;
    count_one(l, lk->shared->counts, lk->seen);
    for (i = 0; i < lk->rings; i++)
        count_one(l, lk->ring[i].shared->counts, lk->ring[i].seen);
}

/* ---- rings --------------------------------------------------------------------------------------------------------- */

/* at : the record in the ring; size was read once and checked. Its head is copied: what was checked is what is used. */
static bool take_record(struct td_tap_client *l, struct client_tap *lk, struct client_ring *r, const uint8_t *at, uint32_t size)
{
    static const size_t least[] = {[TAP_REC_STEP] = sizeof(struct tap_step), [TAP_REC_WEIGHT] = sizeof(struct tap_weight), [TAP_REC_OP] = sizeof(struct tap_op),
                                   [TAP_REC_KERNEL] = sizeof(struct tap_kernel), [TAP_REC_FLIGHT] = sizeof(struct tap_kept)};
    union { struct tap_rec rec; struct tap_step step; struct tap_weight weight; struct tap_op op; struct tap_kernel kernel; struct tap_kept kept; } head;
    unsigned type = ((const struct tap_rec *)at)->type;

    if (type < TAP_REC_STEP || type > TAP_REC_FLIGHT || size < least[type])
        return false;
    memcpy(&head, at, least[type]);
    head.rec.size = size;
    if (type == TAP_REC_STEP)
        return client_take_step(l, lk, &head.step, at + sizeof head.step);
    if (type == TAP_REC_WEIGHT)
        return client_take_chunk(l, r, &head.weight, at + sizeof head.weight);
    if (type == TAP_REC_KERNEL)
        return client_take_kernel(l, &head.kernel);
    if (type == TAP_REC_FLIGHT)
        return client_take_kept(l, lk, &head.kept);
    return client_take_op(l, lk, r, &head.op, at);
}

static int drain_ring(struct td_tap_client *l, struct client_tap *lk, struct client_ring *r)
{
    uint64_t tail = atomic_load_explicit(&r->shared->tail, memory_order_relaxed);
    int n = 0;

    while (!r->corrupt && n < CLIENT_DRAIN_MAX) {
        uint64_t head = atomic_load_explicit(&r->shared->head, memory_order_acquire), have = head - tail;
        const uint8_t *at = r->data + tail % lk->ring_bytes;
        uint32_t size;

        if (!have)
            break;
        size = *(const volatile uint32_t *)at;
        r->corrupt = have > lk->ring_bytes || size < sizeof(struct tap_rec) || size > have || size % TAP_REC_ALIGN || !take_record(l, lk, r, at, size);
        if (r->corrupt) {
            td_log(TD_LOG_WARN, "tap", "process %d: a ring holds what no tap writes; it is not read any further", (int)lk->pid);
            td_writer_count(l->opt.writer, "links.corrupt", 1, 0);
            break;
        }
        tail += size;
        atomic_store_explicit(&r->shared->tail, tail, memory_order_release);
        n++;
    }
    return n;
}

int client_drain(struct td_tap_client *l, struct client_tap *lk)
{
    uint32_t i;
    int n = 0;

    for (i = 0; lk->shared && i < lk->rings; i++)
        n += drain_ring(l, lk, &lk->ring[i]);
    return n;
}

double client_full(const struct client_tap *lk)
{
    uint64_t most = 0;
    uint32_t i;

    for (i = 0; lk->shared && i < lk->rings; i++) {
        const struct tap_ring *r = lk->ring[i].shared;
        uint64_t used = atomic_load_explicit(&r->head, memory_order_relaxed) - atomic_load_explicit(&r->tail, memory_order_relaxed);

        most = used > most ? used : most;
    }
    return lk->shared ? (double)most / (double)lk->ring_bytes : 0;
}
