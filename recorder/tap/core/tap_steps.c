/* tap_steps.c - which forward passes are taken: sampling, the budget, and their records.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The unit of sampling is the step, so that what is taken is whole; a thread that has no steps has one in every op. */
#include <errno.h>
#include <string.h>

#include "recorder/tap/core/tap_core.h"

#define WINDOW_STEPS 4u               /* neighbouring steps taken together */
#define CLASS_STEPS 2u                /* steps of each size that are taken whatever the sampling says */
#define BURST_NS 1000000000LL         /* budget that an idle time may save up */
#define DEBT_NS 5e9                   /* at most, for the time that one step took: its thread may have lost its core meanwhile, or waited for the GPU */

int64_t tap_new_size_ns = 5000000000LL;  /* so long after a size that was new the next one must not be missed */

/* A budget is a debt in time: what is taken moves `due` ahead by the time that it may use; over budget while due is ahead of now.
 * A step is taken whole and paid afterwards. */
static bool affordable(bool limited, _Atomic int64_t *due, int64_t now)
{
    int64_t d = atomic_load_explicit(due, memory_order_relaxed);

    if (!limited)
        return true;
    if (d < now - BURST_NS)
        atomic_compare_exchange_strong(due, &d, now - BURST_NS);
    return d <= now;
}

void tap_spend(_Atomic int64_t *due, uint64_t bytes)
{
    if (tap_plan.budget > 0)
        atomic_fetch_add_explicit(due, (int64_t)((double)bytes * 1e9 / (double)tap_plan.budget), memory_order_relaxed);
}

void tap_sampler_charge_time(const struct tap_sampler *p, int64_t ns)
{
    double debt;

    if (!tap_plan.time_ppm || p->is_new_size)
        return;
    debt = (double)ns * 1e6 / tap_plan.time_ppm;
    atomic_fetch_add_explicit(&tap_plan.due_time, (int64_t)(debt < DEBT_NS ? debt : DEBT_NS), memory_order_relaxed);
}

/* ---- sampling ------------------------------------------------------------------------------------------------------ */

static uint64_t window_period(void)
{
    uint64_t ppm = tap_plan.percent_ppm ? tap_plan.percent_ppm : 1;

    return (WINDOW_STEPS * 1000000u + ppm / 2) / ppm;
}

/* Steps until the next window: windows of neighbouring steps, one in each period, at a place that no rhythm of the server can be in step with. */
static uint64_t until_window(uint64_t step)
{
    uint64_t period = window_period(), at, start;

    if (period <= WINDOW_STEPS)
        return 0;
    at = step % period;
    start = tap_mix(step / period) % (period - WINDOW_STEPS + 1);
    if (at >= start + WINDOW_STEPS)
        return period - at + tap_mix(step / period + 1) % (period - WINDOW_STEPS + 1);
    return at < start ? start - at : 0;
}

/* Sizes that a library may have different kernels for: vLLM's gptq has one for each rest of 8 rows, Marlin one for each 16 up to 64. */
static unsigned size_class(int64_t rows, bool decode)
{
    unsigned c = 15;                  /* 9 to 16, 17 to 24 ... 57 to 64 are 8 to 14; twice as many each time from here on */

    if (rows <= 8)
        c = rows < 1 ? 0 : (unsigned)rows - 1;
    else if (rows <= 64)
        c = (unsigned)(rows - 1) / 8 + 7;
    else
        for (; rows >= 128 && c < TAP_CLASSES / 2 - 1; c++)
            rows >>= 1;
    return c + (decode ? TAP_CLASSES / 2 : 0);
}

static enum tap_decision decide(struct tap_sampler *p, unsigned class, int64_t now, bool *weights)
{
    bool wanted;

    p->is_new_size = p->classes[class] < CLASS_STEPS; /* few, and a size may not come again: whatever time they take */
    wanted = tap_plan.mode == TAP_MODE_ALL || p->is_new_size || !until_window(p->steps);
    p->steps++;
    if (!wanted)
        return TAP_SKIP_SAMPLING;
    *weights = affordable(tap_plan.budget > 0, &tap_plan.due_weights, now); /* asked once: the step that brings them stays whole */
    return affordable(tap_plan.budget > 0, &tap_plan.due_steps, now) && affordable(tap_plan.time_ppm && !p->is_new_size, &tap_plan.due_time, now) ? TAP_RECORD : TAP_SKIP_BUDGET;
}

void tap_step_alone(struct tap_ring_slot *s, int64_t rows)
{
    unsigned class = size_class(rows, false);

    tap_thread.decision = decide(&s->sampler, class, tap_now(), &tap_thread.may_send_weights);
    s->sampler.classes[class] += tap_thread.decision == TAP_RECORD && s->sampler.classes[class] < CLASS_STEPS;
}

enum tap_decision tap_sampler_decide(struct tap_sampler *p, int64_t rows, bool *weights)
{
    unsigned class = size_class(rows, false);
    int64_t now = tap_now();
    enum tap_decision doing = decide(p, class, now, weights);

    if (!p->last_new_size_ns || p->classes[class] < CLASS_STEPS)
        p->last_new_size_ns = now;
    p->classes[class] += doing == TAP_RECORD && p->classes[class] < CLASS_STEPS;
    return doing;
}

uint64_t tap_sampler_steps_to_window(const struct tap_sampler *p, int64_t now)
{
    return tap_plan.mode == TAP_MODE_ALL || !p->last_new_size_ns || now - p->last_new_size_ns < tap_new_size_ns ? 0 : until_window(p->steps);
}

bool tap_is_sampling(void)
{
    return tap_plan.mode != TAP_MODE_ALL;
}

void tap_sampler_skip_steps(struct tap_sampler *p, uint64_t passes)
{
    p->steps += passes;
}

/* ---- steps --------------------------------------------------------------------------------------------------------- */

static bool sane_step(const struct td_step_args *args)
{
    return args && args->struct_size >= sizeof *args && args->n_spans >= 0 && args->n_spans <= TAP_MAX_SPANS && (args->spans || !args->n_spans);
}

bool tap_step_write(struct tap_ring_slot *s, const struct td_step_args *args, int64_t now)
{
    uint64_t spans = (uint64_t)args->n_spans * sizeof(struct tap_span);
    uint64_t size = sizeof(struct tap_step) + spans + (uint64_t)args->n_spans * TAP_MAX_ID; /* at most */
    struct tap_step *rec = tap_ring_slot_head(s);
    struct tap_span *span = (struct tap_span *)(rec + 1);
    char *ids = (char *)span + spans, *end = ids;
    int32_t i;

    if (tap_ring_slot_room(s) < size + TAP_REC_ALIGN)
        return false;
    for (i = 0; i < args->n_spans; i++) {
        const struct td_step_span *from = &args->spans[i];
        size_t n = from->id ? strnlen(from->id, TAP_MAX_ID) : 0;

        span[i] = (struct tap_span){from->request, from->first_row, from->n_rows, from->position, from->decode != 0, (uint16_t)n};
        if (n)
            memcpy(end, from->id, n);
        end += n;
    }
    size = tap_round_up((uint64_t)(end - (char *)rec), TAP_REC_ALIGN);
    *rec = (struct tap_step){tap_ring_slot_rec(s, TAP_REC_STEP, (uint32_t)size, now), args->step, args->n_spans, (uint32_t)(end - ids)};
    tap_ring_slot_publish(s, (uint32_t)size);
    return true;
}

const enum tap_count tap_reason_steps[] = {[TAP_UNDECIDED] = TAP_STEPS_SAMPLING, [TAP_RECORD] = TAP_STEPS_SENT, [TAP_SKIP_SAMPLING] = TAP_STEPS_SAMPLING,
                                           [TAP_SKIP_BUDGET] = TAP_STEPS_BUDGET, [TAP_SKIP_RING] = TAP_STEPS_RING,
                                           [TAP_SKIP_FLIGHT] = TAP_STEPS_FLIGHT};

static void begin_step(struct tap_ring_slot *s, const struct td_step_args *args, unsigned class)
{
    int64_t now = tap_now();

    tap_thread.step = args->step;
    tap_thread.decision = decide(&s->sampler, class, now, &tap_thread.may_send_weights);
    if (tap_thread.decision == TAP_RECORD && !tap_step_write(s, args, now))
        tap_thread.decision = TAP_SKIP_RING;
    if (tap_thread.decision == TAP_RECORD) {
        s->sampler.classes[class] += s->sampler.classes[class] < CLASS_STEPS;
        tap_ring_slot_count(s, TAP_STEPS_SENT, 1, 0);
    } else {
        tap_ring_slot_count(s, tap_reason_steps[tap_thread.decision], 1, 0);
    }
}

static void take_step(const struct td_step_args *args, int64_t rows, bool decode)
{
    uint32_t generation = atomic_load_explicit(&tap_generation, memory_order_acquire);
    struct tap_ring_slot *s;
    int e = errno;

    tap_thread.uses_steps = true;
    if (tap_thread.inside || !generation)
        return;
    tap_thread.inside = true;
    s = tap_ring_slot_mine(generation);
    if (s) {
        begin_step(s, args, size_class(rows, decode));
        tap_ring_slot_exit(s);
    } else {
        tap_ring_slot_count_homeless(TAP_STEPS_THREADS, 1, 0, generation);
    }
    tap_thread.inside = false;
    errno = e;
}

void tap_step_begin(const struct td_step_args *args)
{
    int64_t rows = 0;
    bool decode = false;
    int32_t i;

    if (!sane_step(args))
        return;
    for (i = 0; i < args->n_spans; i++) {
        rows += args->spans[i].n_rows;
        decode |= args->spans[i].decode != 0;
    }
    take_step(args, rows, decode);
}

void tap_step_begin_rows(uint64_t step, int64_t rows)
{
    take_step(&(struct td_step_args){.struct_size = sizeof(struct td_step_args), .step = step}, rows, false);
}

void tap_step_mark_thread(void)
{
    tap_thread.uses_steps = true;
}
