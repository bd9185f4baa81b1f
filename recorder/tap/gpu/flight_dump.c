/* flight_dump.c - the flight recorder's ring on its way to the sender: op after op, oldest first,
 * as ops that were taken go.
 * SPDX-License-Identifier: Apache-2.0
 *
 * On the tap's thread, with the lane held, on the stage's own stream; never more than there is room
 * for. Weights are read from where the server has them, if there is memory still; whether they are
 * those that the op used the sender sees by their sample. */
#include <string.h>

#include "recorder/tap/gpu/flight_dump.h"
#include "recorder/tap/gpu/flight_ring.h"
#include "recorder/tap/gpu/flight_trigger.h"
#include "recorder/tap/gpu/gpu_stage.h"
#include "recorder/tap/gpu/gpu_weight_chunks.h"

static struct {
    /* Number of the keep whose KEEP entry was put; whose KEPT entry was. */
    uint64_t begun, ended;
    uint64_t step;                    /* that the sender's ops belong to now */
    bool has_step;
} keep;

void tap_flight_dump_clear(void)
{
    memset(&keep, 0, sizeof keep);
}

#define LATER TAP_COUNTS               /* no room yet. Else: what stands against sending this op at all; TAP_OPS_SENT: nothing */

/* ---- weights --------------------------------------------------------------------------------- */

static bool is_there(uint64_t address, uint64_t bytes)
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
        if (s->bytes[t] && !is_there(s->address[t], s->bytes[t]))
            return TAP_OPS_WEIGHTS;
    if (tap_gpu_weight_chunks_put(s, tap_gpu_stage_stream())) {
        tap_gpu_weight_set_went(s);
        return TAP_OPS_SENT;
    }
    tap_gpu_stage_hand_over();
    return tap_gpu_weight_chunk_fits() ? TAP_OPS_WEIGHTS : LATER;
}

/* ---- ops ------------------------------------------------------------------------------------- */

static uint64_t room_for(const struct tap_gpu_entry *e)
{
    uint64_t n = 2 * TAP_GPU_SAMPLE;
    int i;

    for (i = 0; i < e->work.n_op; i++)
        if (e->work.op[i].address && e->work.op[i].use != TD_GPU_WEIGHT &&
            e->work.op[i].use < TD_GPU_SCRATCH)
            n += e->work.op[i].bytes + TAP_GPU_SAMPLE;
    return n;
}

/* Room for all launches of the oldest op, wherever the ring's end lies. */
static enum tap_count find_room(void)
{
    const struct tap_flight_launch *f;
    uint64_t n = 0, largest = tap_largest();
    unsigned i;

    for (i = 0; (f = tap_flight_ring_oldest(i)); i++)
        n += room_for(&f->e);
    if (2 * n > tap_gpu_stage_bytes() || n + 2 * tap_round(sizeof(struct tap_op), 4096) > largest)
        return TAP_OPS_RING;
    return tap_gpu_queue_place(i + 3) && tap_gpu_stage_room() >= 2 * n ? TAP_OPS_SENT : LATER;
}

static bool move(uint64_t *at, uint64_t bytes)
{
    uint64_t from = tap_flight_ring_address() + *at;

    *at = tap_gpu_stage_reserve(bytes);
    return *at != TAP_GPU_FULL &&
           tap_gpu_stage_copy(*at, from, 1, bytes, bytes, tap_gpu_stage_stream());
}

static bool put_launch(const struct tap_flight_launch *f, const struct tap_gpu_weight_set *set,
                       enum tap_flight why)
{
    struct tap_gpu_entry *e = tap_gpu_queue_place(0);
    int i;

    *e = f->e;
    e->set = *set;
    e->flight = why;
    if (!e->joins && !move(&e->sample_at, TAP_GPU_SAMPLE))
        return false;
    for (i = 0; i < e->work.n_op; i++) {
        const struct td_gpu_operand *o = &e->work.op[i];

        if (o->address && o->use != TD_GPU_WEIGHT && o->use < TD_GPU_SCRATCH &&
            !move(&e->op_at[i], o->bytes))
            return false;
    }
    if (!tap_gpu_stage_mark(tap_gpu_stage_stream()))
        return false;
    tap_gpu_queue_put(e, tap_gpu_stage_batch());
    return true;
}

static struct tap_gpu_entry *put_word(enum tap_gpu_entry_kind kind, enum tap_flight why)
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

    if (keep.has_step && keep.step == step)
        return;
    e = put_word(TAP_GPU_STEP, TAP_FLIGHT_NOT);
    e->step = keep.step = step;
    e->recorded = !is_new;
    keep.has_step = true;
    tap_gpu_queue_put(e, tap_gpu_stage_batch() - 1);
}

/* The oldest op. */
static enum tap_count keep_op(enum tap_flight why)
{
    struct tap_flight_launch *f = tap_flight_ring_oldest(0);
    struct tap_gpu_weight_set *set = tap_gpu_weight_set_find(&f->e.work);
    enum tap_count why_not = set ? send_weights(set) : TAP_OPS_WEIGHTS;
    unsigned i;

    if (why_not == TAP_OPS_SENT)
        why_not = find_room();
    if (why_not != TAP_OPS_SENT)
        return why_not;
    put_step(f);
    for (i = 0; (f = tap_flight_ring_oldest(i)); i++)
        if (!put_launch(f, set, why))
            return TAP_OPS_FAILED;     /* the driver refused: then it does so for all */
    if (tap_gpu_stage_waiting() >= TAP_GPU_BATCH_BYTES)
        tap_gpu_stage_hand_over();
    return TAP_OPS_SENT;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static bool begin(enum tap_flight why, uint64_t number, int64_t t_ns)
{
    struct tap_gpu_entry *e = put_word(TAP_GPU_DUMP_BEGIN, why);

    if (!e)
        return false;
    e->t_ns = t_ns;
    tap_gpu_queue_put(e, tap_gpu_stage_batch() - 1);
    keep.begun = number;
    keep.has_step = false;
    return true;
}

/* All that was put is there before the sender says that it is over: until then nothing is written
 * to the ring. */
static void end(enum tap_flight why)
{
    struct tap_gpu_entry *e = put_word(TAP_GPU_DUMP_END, why);

    if (!e)
        return;
    tap_gpu_stage_hand_over();
    tap_gpu_queue_put(e, tap_gpu_stage_batch() - 1);
    keep.ended = keep.begun;
}

void tap_flight_dump_some(void)
{
    uint64_t number;
    int64_t t_ns;
    enum tap_flight why = tap_flight_dump_reason(&number, &t_ns);
    enum tap_count went;

    if (why == TAP_FLIGHT_NOT || keep.ended == number ||
        (keep.begun != number && !begin(why, number, t_ns)))
        return;
    while (tap_flight_ring_oldest(0) && (went = keep_op(why)) != LATER)
        tap_flight_ring_drop(went);
    tap_gpu_stage_hand_over();
    if (!tap_flight_ring_oldest(0))
        end(why);
}
