/* tap_steps.c - steps: decide whether one is recorded, write its record.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/core/tap_steps.h"

#include <errno.h>
#include <string.h>

#include "recorder/tap/core/tap_plan.h"
#include "recorder/tap/core/tap_time.h"

static bool is_sane(const struct td_step_args *args)
{
    return args && args->struct_size >= sizeof *args && args->n_spans >= 0 &&
           args->n_spans <= TAP_MAX_SPANS && (args->spans || !args->n_spans);
}

bool tap_step_write(struct tap_ring_slot *s, const struct td_step_args *args, int64_t now)
{
    uint64_t spans = (uint64_t)args->n_spans * sizeof(struct tap_span);
    /* at most */
    uint64_t size = sizeof(struct tap_step) + spans + (uint64_t)args->n_spans * TAP_MAX_ID;
    struct tap_step *rec = tap_ring_slot_head(s);
    struct tap_span *span = (struct tap_span *)(rec + 1);
    char *ids = (char *)span + spans, *end = ids;
    int32_t i;

    if (tap_ring_slot_room(s) < size + TAP_REC_ALIGN)
        return false;
    for (i = 0; i < args->n_spans; i++) {
        const struct td_step_span *from = &args->spans[i];
        size_t n = from->id ? strnlen(from->id, TAP_MAX_ID) : 0;

        span[i] = (struct tap_span){from->request,  from->first_row,   from->n_rows,
                                    from->position, from->decode != 0, (uint16_t)n};
        if (n)
            memcpy(end, from->id, n);
        end += n;
    }
    size = tap_round_up((uint64_t)(end - (char *)rec), TAP_REC_ALIGN);
    *rec = (struct tap_step){tap_ring_slot_rec(s, TAP_REC_STEP, (uint32_t)size, now), args->step,
                             args->n_spans, (uint32_t)(end - ids)};
    tap_ring_slot_publish(s, (uint32_t)size);
    return true;
}

static void begin_in_slot(struct tap_ring_slot *s, const struct td_step_args *args, unsigned class)
{
    int64_t now = tap_now();

    tap_thread.step = args->step;
    tap_thread.decision =
        tap_sampler_decide_class(&s->sampler, class, now, &tap_thread.may_send_weights);
    if (tap_thread.decision == TAP_RECORD && !tap_step_write(s, args, now))
        tap_thread.decision = TAP_SKIP_RING;
    if (tap_thread.decision == TAP_RECORD)
        tap_sampler_note_recorded(&s->sampler, class);
    tap_ring_slot_count(s, tap_count_of_steps(tap_thread.decision), 1, 0);
}

static void begin(const struct td_step_args *args, int64_t rows, bool decode)
{
    uint32_t generation = atomic_load_explicit(&tap_generation, memory_order_acquire);
    struct tap_ring_slot *s;
    int e = errno;

    tap_thread.uses_steps = true;
    if (tap_thread.inside || !generation)
        return;
    tap_thread.inside = true;
    s = tap_ring_slot_enter(generation);
    if (s) {
        begin_in_slot(s, args, tap_sampler_class(rows, decode));
        tap_ring_slot_exit(s);
    } else {
        tap_count_in_arm(generation, TAP_STEPS_THREADS, 1, 0);
    }
    tap_thread.inside = false;
    errno = e;
}

void tap_step_begin(const struct td_step_args *args)
{
    int64_t rows = 0;
    bool decode = false;
    int32_t i;

    if (!is_sane(args))
        return;
    for (i = 0; i < args->n_spans; i++) {
        rows += args->spans[i].n_rows;
        decode |= args->spans[i].decode != 0;
    }
    begin(args, rows, decode);
}

void tap_step_begin_rows(uint64_t step, int64_t rows)
{
    begin(&(struct td_step_args){.struct_size = sizeof(struct td_step_args), .step = step}, rows,
          false);
}

void tap_step_mark_thread(void)
{
    tap_thread.uses_steps = true;
}
