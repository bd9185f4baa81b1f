/* gpu_record.c - record one launch: its weights, copies of its inputs and output, and the entry
 * that describes them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The entry is filled in at the queue's next place when the launch begins, and put when it has
 * ended: nothing else is put between the two. */
#include <string.h>

#include "recorder/tap/gpu/gpu_cache_rows.h"
#include "recorder/tap/gpu/gpu_copies.h"
#include "recorder/tap/gpu/gpu_queue.h"
#include "recorder/tap/gpu/gpu_record.h"
#include "recorder/tap/gpu/gpu_weight_chunks.h"

/* ---- copies ---------------------------------------------------------------------------------- */

static bool copy_operand(struct tap_gpu_copies *c, uint64_t at, const struct td_gpu_operand *o,
                         void *stream)
{
    uint64_t rows = tap_gpu_operand_rows(o);

    return tap_gpu_copies_add(c, tap_gpu_stage_address(at), o->address, rows, o->bytes / rows,
                              tap_gpu_operand_pitch(o), stream);
}

static bool copy_sample(struct tap_gpu_copies *c, struct tap_gpu_entry *e, void *stream)
{
    uint64_t n;
    int t;

    e->sample_at = tap_gpu_stage_reserve(TAP_GPU_SAMPLE);
    for (t = 0; t < TAP_MAX_WEIGHTS && e->sample_at != TAP_GPU_FULL; t++) {
        const uint64_t at = tap_gpu_weight_set_sample(&e->set, t, &n);
        const uint64_t to = e->sample_at + (uint64_t)t * TAP_GPU_SAMPLE_EACH;

        if (n && !tap_gpu_copies_add(c, tap_gpu_stage_address(to), e->set.address[t] + at, 1, n, n,
                                     stream))
            return false;
    }
    return e->sample_at != TAP_GPU_FULL;
}

/* A graph's launch copies all of its operands, output included, to its slot, so that one copy brings
 * them all: afterwards, since the graph may not have been launched yet. */
static bool reserve_slot(struct tap_gpu_entry *e)
{
    const uint64_t at = tap_gpu_stage_reserve(tap_gpu_gemm_slot_offset(&e->work, e->work.n_op));
    int i;

    for (i = 0; i < e->work.n_op; i++)
        e->op_at[i] = at + tap_gpu_gemm_slot_offset(&e->work, i);
    return at != TAP_GPU_FULL;
}

/* The first operand begins the slot. */
static bool copy_slot(struct tap_gpu_copies *c, const struct tap_gpu_entry *e, void *stream)
{
    const uint64_t bytes = tap_gpu_gemm_slot_offset(&e->work, e->work.n_op);

    return tap_gpu_copies_add(c, tap_gpu_stage_address(e->op_at[0]), e->launch.slot, 1, bytes, bytes,
                              stream);
}

/* Reserve room for inputs and output, and copy the inputs. */
static bool copy_operands(struct tap_gpu_copies *c, struct tap_gpu_entry *e, void *stream)
{
    int i;

    for (i = 0; i < e->work.n_op; i++) {
        const struct td_gpu_operand *o = &e->work.op[i];

        if (!tap_gpu_operand_is_copied(o))
            continue;
        e->op_at[i] = tap_gpu_stage_reserve(o->bytes);
        if (e->op_at[i] == TAP_GPU_FULL ||
            (o->use == TD_GPU_IN && !copy_operand(c, e->op_at[i], o, stream)))
            return false;
    }
    return true;
}

/* False: no room, or the driver refused. */
static bool copy_inputs(struct tap_gpu_entry *e, void *stream)
{
    struct tap_gpu_copies c = {.n = 0};

    if (!e->joins && !copy_sample(&c, e, stream))
        return false;
    return (e->launch.slot ? reserve_slot(e) : copy_operands(&c, e, stream)) &&
           tap_gpu_copies_launch(&c, stream);
}

/* What the operator wrote into caches. The list is the copy that was made of it before the call. */
static bool copy_cache_rows(const struct tap_gpu_entry *e, void *stream)
{
    const struct td_gpu_work *w = &e->work;
    const uint64_t list = tap_gpu_stage_address(e->op_at[w->list - 1]);
    int i, part = 0;

    for (i = 0; i < w->n_op; i++) {
        const struct td_gpu_operand *o = &w->op[i];

        if (tap_gpu_operand_is_output(o) &&
            !tap_gpu_cache_rows_copy(tap_gpu_stage_address(e->op_at[i]), &w->cache[part++], list,
                                     (uint64_t)o->shape[0], o->bytes / (uint64_t)o->shape[0], stream))
            return false;
    }
    return true;
}

static bool copy_outputs(const struct tap_gpu_entry *e, void *stream)
{
    struct tap_gpu_copies c = {.n = 0};
    int i;

    if (e->work.list)
        return copy_cache_rows(e, stream);
    if (e->launch.slot && !copy_slot(&c, e, stream))
        return false;
    for (i = 0; i < e->work.n_op && !e->launch.slot; i++)
        if (tap_gpu_operand_is_output(&e->work.op[i]) &&
            !copy_operand(&c, e->op_at[i], &e->work.op[i], stream))
            return false;
    return tap_gpu_copies_launch(&c, stream);
}

/* ---- before and after the launch ------------------------------------------------------------- */

/* Are all weights of the set on their way? Sends what is missing if this step may. */
static bool send_weights(const struct tap_gpu_steps *s, struct tap_gpu_weight_set *set,
                         void *stream)
{
    if (set->staged == set->total)
        return true;
    if (!s->may_send_weights || !tap_gpu_weight_set_may_go(set, s->number))
        return false;
    tap_gpu_weight_chunks_put(set, stream);
    tap_gpu_weight_set_went(set);
    return set->staged == set->total;
}

enum tap_count tap_gpu_record_weights(struct tap_gpu_steps *s, struct tap_gpu_weight_set *set,
                                      void *stream)
{
    if (!set)
        return TAP_OPS_FAILED;
    if (set->number && tap_gpu_weight_set_is_refused(set))
        return TAP_OPS_LAYERS;
    if (set->number && tap_gpu_weight_set_is_activation(set))
        return TAP_OPS_ACTIVATIONS;
    return send_weights(s, set, stream) ? TAP_OPS_SENT : TAP_OPS_WEIGHTS;
}

bool tap_gpu_record_fits(uint64_t bytes)
{
    return bytes + tap_round_up(sizeof(struct tap_op), 4096) * 2 < tap_max_record_bytes() &&
           bytes <= tap_gpu_stage_room();
}

enum tap_count tap_gpu_record_begin(struct tap_gpu_steps *s, const struct tap_gpu_launch *l,
                                    uint64_t stream, const struct tap_gpu_kernel *k,
                                    const struct td_gpu_work *w, const char *library_function,
                                    bool joined)
{
    static struct tap_gpu_weight_set none;
    struct tap_gpu_weight_set *set =
        w->beside && !tap_gpu_gemm_weights(w) ? &none : tap_gpu_weight_set_find(w);
    struct tap_gpu_entry *e;
    enum tap_count why;
    bool ok;

    if (!tap_gpu_stage_use_stream(stream))
        return TAP_OPS_FAILED;
    why = tap_gpu_record_weights(s, set, l->stream);
    if (why != TAP_OPS_SENT)
        return why;
    e = tap_gpu_queue_place(0);
    if (!e || !tap_gpu_record_fits(tap_gpu_gemm_copied_bytes(w)))
        return TAP_OPS_RING;
    memset(e, 0, sizeof *e);
    e->kind = TAP_GPU_LAUNCH;
    e->set = *set;
    e->joins = joined;
    e->library_function = library_function;
    e->t_ns = tap_now();
    e->kernel = k;
    e->work = *w;
    e->launch = *l;
    ok = copy_inputs(e, l->stream);
    /* Without the weights, which go once an arm and have a budget of their own. */
    s->used_ns += tap_now() - e->t_ns;
    return ok ? TAP_OPS_SENT : TAP_OPS_RING;
}

bool tap_gpu_record_end(struct tap_gpu_steps *s, const struct tap_gpu_launch *l, bool ok)
{
    struct tap_gpu_entry *e = tap_gpu_queue_place(0);

    tap_gpu_gemm_set_output(&e->work, l);
    if (l->inner && tap_gpu_inner_is_whole(l->inner, &e->work))
        e->inner = *l->inner, e->work.rounding = l->inner->rounding;
    if (!ok || !copy_outputs(e, l->stream) || !tap_gpu_stage_mark(l->stream)) {
        if (e->joins)
            tap_gpu_queue_cut(TAP_OPS_FAILED);
        tap_count(TAP_OPS_FAILED, !e->joins, tap_gpu_gemm_copied_bytes(&e->work));
        return false;
    }
    tap_gpu_queue_put(e, tap_gpu_stage_batch());
    s->boundary_due = true;
    if (tap_gpu_stage_waiting() >= TAP_GPU_BATCH_BYTES)
        tap_gpu_stage_hand_over();
    return true;
}
