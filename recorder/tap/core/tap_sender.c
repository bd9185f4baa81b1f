/* tap_sender.c - what a front's sending thread writes into its ring.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/core/tap_sender.h"

#include <string.h>

#include "recorder/tap/core/tap_plan.h"
#include "recorder/tap/core/tap_steps.h"
#include "recorder/tap/core/tap_time.h"
#include "recorder/tap/core/tap_weights.h"

/* This thread's ring slot, entered: each of the functions below exits it again. NULL: asleep, or no
 * slot is free. */
static struct tap_ring_slot *enter(void)
{
    uint32_t generation = atomic_load_explicit(&tap_generation, memory_order_acquire);

    return generation ? tap_ring_slot_enter(generation) : NULL;
}

uint64_t tap_send_room(void)
{
    struct tap_ring_slot *s = enter();
    uint64_t room = 0;

    if (s) {
        room = tap_ring_slot_room(s);
        tap_ring_slot_exit(s);
    }
    return room;
}

bool tap_send_step(uint64_t step)
{
    struct td_step_args args = {.struct_size = sizeof args, .step = step};
    struct tap_ring_slot *s = enter();
    bool done = false;

    if (s) {
        done = tap_step_write(s, &args, tap_now());
        tap_ring_slot_count(s, done ? TAP_STEPS_SENT : TAP_STEPS_RING, 1, 0);
        tap_ring_slot_exit(s);
    }
    tap_thread.uses_steps = true;
    tap_thread.step = step;
    tap_thread.decision = done ? TAP_RECORD : TAP_SKIP_RING;
    return done;
}

void tap_send_resume_step(uint64_t step)
{
    tap_thread.uses_steps = true;
    tap_thread.step = step;
    tap_thread.decision = TAP_RECORD;
}

/* Write a record of that type, which begins with *rec and has size bytes in all; fills in *rec.
 * False: no room, or no ring. */
static bool send_record(enum tap_rec_type type, struct tap_rec *rec, uint32_t size, int64_t t_ns)
{
    struct tap_ring_slot *s = enter();
    bool done = false;

    if (!s)
        return false;
    done = tap_ring_slot_room(s) >= size;
    if (done) {
        *rec = tap_ring_slot_rec(s, type, size, t_ns);
        memcpy(tap_ring_slot_head(s), rec, size);
        tap_ring_slot_publish(s, size);
    }
    tap_ring_slot_exit(s);
    return done;
}

bool tap_send_dump(enum tap_dump_reason why, int64_t t_ns, uint64_t ring_bytes)
{
    struct tap_dump d = {.why = why, .ring_bytes = ring_bytes};

    return send_record(TAP_REC_DUMP, &d.rec, sizeof d, t_ns);
}

uint32_t tap_send_new_weights(void)
{
    struct tap_ring_slot *s = enter();
    uint32_t id = 0;

    if (s) {
        id = ++s->last_weight_set;
        tap_ring_slot_exit(s);
    }
    return id;
}

bool tap_send_weights_refused(uint32_t id)
{
    struct tap_ring_slot *s = enter();
    bool refused = s && tap_weights_are_refused(s, id);

    if (s)
        tap_ring_slot_exit(s);
    return refused;
}

bool tap_send_weights(uint32_t id, const uint64_t bytes[TAP_MAX_WEIGHTS], uint64_t offset,
                      const void *data, uint32_t len)
{
    struct tap_ring_slot *s = len <= TAP_MAX_CHUNK ? enter() : NULL;
    uint64_t size;
    void *to = NULL;

    if (!s)
        return false;
    to = tap_weights_chunk(s, id, bytes, offset, len, &size);
    if (to) {
        memcpy(to, data, len);
        tap_ring_slot_publish(s, (uint32_t)size);
    }
    tap_ring_slot_exit(s);
    return to != NULL;
}

bool tap_send_kernel(const char *symbol, bool known, uint64_t n)
{
    struct tap_kernel k = {.n = n, .known = known};

    memcpy(k.symbol, symbol, strnlen(symbol, sizeof k.symbol - 1));
    return send_record(TAP_REC_KERNEL, &k.rec, sizeof k, tap_now());
}

bool tap_send_operator(const char *name, const char *key, bool known, uint64_t calls,
                       uint64_t bytes)
{
    struct tap_operator o = {.calls = calls, .bytes = bytes, .known = known};

    memcpy(o.name, name, strnlen(name, sizeof o.name - 1));
    memcpy(o.key, key, strnlen(key, sizeof o.key - 1));
    return send_record(TAP_REC_OPERATOR, &o.rec, sizeof o, tap_now());
}
