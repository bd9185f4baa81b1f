/* flight_dump.c - send the flight recorder's ring: op after op, oldest first, through the stage, as
 * recorded ops go.
 * SPDX-License-Identifier: Apache-2.0
 *
 * On the tap's thread, with the gate held, on the stage's own stream; never more than there is room
 * for. Weights are read from where the server has them, if that memory is still there; the sender
 * sees by their sample whether they are those that the op used. */
#include <string.h>

#include "recorder/tap/gpu/flight_dump.h"
#include "recorder/tap/gpu/flight_ring.h"
#include "recorder/tap/gpu/flight_trigger.h"
#include "recorder/tap/gpu/gpu_stage.h"
#include "recorder/tap/gpu/gpu_weight_chunks.h"

static struct {
    /* Numbers of the dumps whose DUMP_BEGIN, and whose DUMP_END, was put last. */
    uint64_t begun, ended;
    uint64_t step;                    /* that the ops in the queue belong to */
    bool has_step;
} dump;

void tap_flight_dump_clear(void)
{
    memset(&dump, 0, sizeof dump);
}

/* Not a count: there is no room yet. Other results name why an op cannot be sent at all;
 * TAP_OPS_SENT: it can. */
#define NO_ROOM_YET TAP_COUNTS

/* ---- weights --------------------------------------------------------------------------------- */

static bool is_mapped(uint64_t address, uint64_t bytes)
{
    uint64_t base;
    size_t n;

    return tap_driver.address_range && !tap_driver.address_range(&base, &n, address) &&
           address >= base && address - base + bytes <= n;
}

static enum tap_count send_weights(struct tap_gpu_weight_set *s)
{
    int t;

    for (t = 0; t < TAP_MAX_WEIGHTS && s->staged < s->total; t++)
        if (s->bytes[t] && !is_mapped(s->address[t], s->bytes[t]))
            return TAP_OPS_WEIGHTS;
    if (tap_gpu_weight_chunks_put(s, tap_gpu_stage_stream())) {
        tap_gpu_weight_set_went(s);
        return TAP_OPS_SENT;
    }
    tap_gpu_stage_hand_over();
    return tap_gpu_weight_chunk_fits() ? TAP_OPS_WEIGHTS : NO_ROOM_YET;
}

/* ---- ops ------------------------------------------------------------------------------------- */

static uint64_t room_for_launch(const struct tap_gpu_entry *e)
{
    uint64_t n = 2 * TAP_GPU_SAMPLE;
    int i;

    for (i = 0; i < e->work.n_op; i++)
        if (e->work.op[i].address && e->work.op[i].use != TD_GPU_WEIGHT &&
            e->work.op[i].use < TD_GPU_SCRATCH)
            n += e->work.op[i].bytes + TAP_GPU_SAMPLE;
    return n;
}

/* Is there room for all launches of the oldest op, wherever the end of the stage's ring lies? */
static enum tap_count find_room_for_oldest(void)
{
    const struct tap_flight_launch *f;
    uint64_t n = 0, largest = tap_max_record_bytes();
    unsigned i;

    for (i = 0; (f = tap_flight_ring_oldest(i)); i++)
        n += room_for_launch(&f->e);
    if (2 * n > tap_gpu_stage_bytes() || n + 2 * tap_round_up(sizeof(struct tap_op), 4096) > largest)
        return TAP_OPS_RING;
    return tap_gpu_queue_place(i + 3) && tap_gpu_stage_room() >= 2 * n ? TAP_OPS_SENT : NO_ROOM_YET;
}

static bool move_to_stage(uint64_t *at, uint64_t bytes)
{
    uint64_t from = tap_flight_ring_address() + *at;

    *at = tap_gpu_stage_reserve(bytes);
    return *at != TAP_GPU_FULL &&
           tap_gpu_stage_copy(*at, from, 1, bytes, bytes, tap_gpu_stage_stream());
}

static bool put_launch(const struct tap_flight_launch *f, const struct tap_gpu_weight_set *set,
                       enum tap_dump_reason why)
{
    struct tap_gpu_entry *e = tap_gpu_queue_place(0);
    int i;

    *e = f->e;
    e->set = *set;
    e->flight = why;
    if (!e->joins && !move_to_stage(&e->sample_at, TAP_GPU_SAMPLE))
        return false;
    for (i = 0; i < e->work.n_op; i++) {
        const struct td_gpu_operand *o = &e->work.op[i];

        if (o->address && o->use != TD_GPU_WEIGHT && o->use < TD_GPU_SCRATCH &&
            !move_to_stage(&e->op_at[i], o->bytes))
            return false;
    }
    if (!tap_gpu_stage_mark(tap_gpu_stage_stream()))
        return false;
    tap_gpu_queue_put(e, tap_gpu_stage_batch());
    return true;
}

static struct tap_gpu_entry *prepare_entry(enum tap_gpu_entry_kind kind, enum tap_dump_reason why)
{
    struct tap_gpu_entry *e = tap_gpu_queue_place(0);

    if (!e)
        return NULL;
    memset(e, 0, sizeof *e);
    e->kind = kind;
    e->flight = why;
    return e;
}

static void put_step(const struct tap_flight_launch *f)
{
    struct tap_gpu_entry *e;
    uint64_t step;
    bool is_new = tap_flight_ring_step_is_new(f, &step);

    if (dump.has_step && dump.step == step)
        return;
    e = prepare_entry(TAP_GPU_STEP, TAP_DUMP_NONE);
    e->step = dump.step = step;
    e->recorded = !is_new;
    dump.has_step = true;
    tap_gpu_queue_put(e, tap_gpu_stage_batch() - 1);
}

/* Send the oldest op. */
static enum tap_count dump_oldest(enum tap_dump_reason why)
{
    struct tap_flight_launch *f = tap_flight_ring_oldest(0);
    struct tap_gpu_weight_set *set = tap_gpu_weight_set_find(&f->e.work);
    enum tap_count why_not = set ? send_weights(set) : TAP_OPS_WEIGHTS;
    unsigned i;

    if (why_not == TAP_OPS_SENT)
        why_not = find_room_for_oldest();
    if (why_not != TAP_OPS_SENT)
        return why_not;
    put_step(f);
    for (i = 0; (f = tap_flight_ring_oldest(i)); i++)
        if (!put_launch(f, set, why))
            return TAP_OPS_FAILED;     /* the driver refused, and will refuse the others */
    if (tap_gpu_stage_waiting() >= TAP_GPU_BATCH_BYTES)
        tap_gpu_stage_hand_over();
    return TAP_OPS_SENT;
}

/* ---- the dump -------------------------------------------------------------------------------- */

static bool put_dump_begin(enum tap_dump_reason why, uint64_t number, int64_t t_ns)
{
    struct tap_gpu_entry *e = prepare_entry(TAP_GPU_DUMP_BEGIN, why);

    if (!e)
        return false;
    e->t_ns = t_ns;
    tap_gpu_queue_put(e, tap_gpu_stage_batch() - 1);
    dump.begun = number;
    dump.has_step = false;
    return true;
}

/* The dump is over for the sender when all of it has come: until then nothing enters the ring. */
static void put_dump_end(enum tap_dump_reason why)
{
    struct tap_gpu_entry *e = prepare_entry(TAP_GPU_DUMP_END, why);

    if (!e)
        return;
    tap_gpu_stage_hand_over();
    tap_gpu_queue_put(e, tap_gpu_stage_batch() - 1);
    dump.ended = dump.begun;
}

void tap_flight_dump_some(void)
{
    uint64_t number;
    int64_t t_ns;
    enum tap_dump_reason why = tap_flight_dump_reason(&number, &t_ns);
    enum tap_count went;

    if (why == TAP_DUMP_NONE || dump.ended == number ||
        (dump.begun != number && !put_dump_begin(why, number, t_ns)))
        return;
    while (tap_flight_ring_oldest(0) && (went = dump_oldest(why)) != NO_ROOM_YET)
        tap_flight_ring_drop(went);
    tap_gpu_stage_hand_over();
    if (!tap_flight_ring_oldest(0))
        put_dump_end(why);
}
