/* read_rings.c - from the rings of a server's process into the fixture.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What lies in a ring was written by another process, which may be broken or dying: every length is
 * checked before it is used, and a ring that does not hold together is not read any further. */
#include "recorder/tap_client/read_rings.h"

#include <string.h>

#include "common/log.h"
#include "recorder/tap_client/read_ops.h"
#include "recorder/tap_client/read_steps.h"
#include "recorder/tap_client/read_weights.h"

/* Read one record. at : the record in its ring; size : read once, and checked. The record's head is
 * copied, because the tap's process may go on writing: what was checked is what is used. False: the
 * record does not hold together. */
static bool read_record(struct td_tap_client *c, struct client_tap *tap, struct client_ring *r,
                        const uint8_t *at, uint32_t size)
{
    static const size_t least[] = {[TAP_REC_STEP] = sizeof(struct tap_step),
                                   [TAP_REC_WEIGHT] = sizeof(struct tap_weight),
                                   [TAP_REC_OP] = sizeof(struct tap_op),
                                   [TAP_REC_KERNEL] = sizeof(struct tap_kernel),
                                   [TAP_REC_DUMP] = sizeof(struct tap_dump),
                                   [TAP_REC_OPERATOR] = sizeof(struct tap_operator)};
    union {
        struct tap_rec rec;
        struct tap_step step;
        struct tap_weight weight;
        struct tap_op op;
        struct tap_kernel kernel;
        struct tap_dump dump;
        struct tap_operator operator;
    } head;
    unsigned type = ((const volatile struct tap_rec *)at)->type;

    if (type < TAP_REC_STEP || type > TAP_REC_OPERATOR || size < least[type])
        return false;
    memcpy(&head, at, least[type]);
    __asm__ volatile("" ::: "memory"); /* what is read of `head` from here on is never read from the ring again */
    head.rec.size = size;
    if (type == TAP_REC_STEP)
        return client_read_step(c, tap, &head.step, at + sizeof head.step);
    if (type == TAP_REC_WEIGHT)
        return client_read_chunk(c, r, &head.weight, at + sizeof head.weight);
    if (c->outputs.rehearses && (type == TAP_REC_KERNEL || type == TAP_REC_DUMP || type == TAP_REC_OPERATOR))
        return true; /* counts, of what is not recorded */
    if (type == TAP_REC_KERNEL)
        return client_kernels_read(&c->kernels, &head.kernel);
    if (type == TAP_REC_DUMP)
        return client_flight_read_dump(&c->flight, c->opt.writer, (int)tap->pid, &head.dump);
    if (type == TAP_REC_OPERATOR)
        return client_operators_read(&c->operators, &head.operator);
    r->ops_read++;
    return client_read_op(c, tap, r, &head.op, at);
}

/* Is size the size of a record, when `have` bytes lie in the ring? */
static bool check_size(const struct client_tap *tap, uint64_t have, uint32_t size)
{
    return have <= tap->ring_bytes && size >= sizeof(struct tap_rec) && size <= have &&
           size % TAP_REC_ALIGN == 0;
}

void client_ring_break(struct td_tap_client *c, const struct client_tap *tap, struct client_ring *r, const char *why)
{
    r->corrupt = true;
    td_log(TD_LOG_WARN, "tap", "process %d: %s, and is not read any further", (int)tap->pid, why);
    td_writer_count(c->opt.writer, "links.corrupt", 1, 0);
    c->state.rings_broken++;
}

static int drain_ring(struct td_tap_client *c, struct client_tap *tap, struct client_ring *r)
{
    int n = 0;

    while (!r->corrupt && n < CLIENT_DRAIN_MAX) {
        uint64_t head = atomic_load_explicit(&r->shared->head, memory_order_acquire),
                 have = head - r->read;
        const uint8_t *at = r->data + r->read % tap->ring_bytes;
        uint32_t size;

        if (atomic_load_explicit(&r->shared->tail, memory_order_relaxed) != r->read) {
            client_ring_break(c, tap, r, "a ring was overwritten at its tail");
            break;
        }
        if (!have)
            break;
        size = *(const volatile uint32_t *)at;
        if (!check_size(tap, have, size) || !read_record(c, tap, r, at, size)) {
            client_ring_break(c, tap, r, "a ring does not hold together");
            break;
        }
        r->read += size;
        atomic_store_explicit(&r->shared->tail, r->read, memory_order_release);
        n++;
    }
    return n;
}

int client_drain(struct td_tap_client *c, struct client_tap *tap)
{
    uint32_t i;
    int n = 0;

    for (i = 0; tap->shared && i < tap->rings; i++)
        n += drain_ring(c, tap, &tap->ring[i]);
    return n;
}

double client_fullest(const struct client_tap *tap)
{
    uint64_t most = 0;
    uint32_t i;

    for (i = 0; tap->shared && i < tap->rings; i++) {
        const struct tap_ring *r = tap->ring[i].shared;
        uint64_t used = atomic_load_explicit(&r->head, memory_order_relaxed) -
                        atomic_load_explicit(&r->tail, memory_order_relaxed);

        most = used > most ? used : most;
    }
    return tap->shared ? (double)most / (double)tap->ring_bytes : 0;
}
