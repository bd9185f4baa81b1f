/* tap_sampler.c - which steps are recorded.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/core/tap_sampler.h"

#include "recorder/tap/core/tap_budget.h"
#include "recorder/tap/core/tap_hash.h"
#include "recorder/tap/core/tap_plan.h"
#include "recorder/tap/core/tap_time.h"

#define WINDOW_STEPS 4u /* neighbouring steps that are recorded together */
#define CLASS_STEPS 2u  /* steps of each class that are recorded whatever the sampling says */

int64_t tap_new_size_ns = 5000000000LL;

static uint64_t window_period(void)
{
    uint64_t ppm = tap_plan.percent_ppm ? tap_plan.percent_ppm : 1;

    return (WINDOW_STEPS * 1000000u + ppm / 2) / ppm;
}

/* Steps until the next window; 0: the step lies in one. There is one window of neighbouring steps
 * in each period, at a pseudo-random place, so that no rhythm of the server can be in step with the
 * windows. */
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

/* Libraries have different kernels for different numbers of rows: vLLM's gptq one for each
 * remainder of 8 rows, Marlin one for each 16 rows up to 64. */
unsigned tap_sampler_class(int64_t rows, bool decode)
{
    unsigned c = 15; /* from 65 rows: a class for each doubling; 9 to 64: 8 to 14 */

    if (rows <= 8)
        c = rows < 1 ? 0 : (unsigned)rows - 1;
    else if (rows <= 64)
        c = (unsigned)(rows - 1) / 8 + 7;
    else
        for (; rows >= 128 && c < TAP_CLASSES / 2 - 1; c++)
            rows >>= 1;
    return c + (decode ? TAP_CLASSES / 2 : 0);
}

enum tap_decision tap_sampler_decide_class(struct tap_sampler *p, unsigned class, int64_t now,
                                           bool *may_send_weights)
{
    bool wanted;

    p->is_new_size = p->classes[class] < CLASS_STEPS;
    wanted = tap_plan.mode == TAP_MODE_ALL || p->is_new_size || !until_window(p->steps);
    p->steps++;
    if (!wanted)
        return TAP_SKIP_SAMPLING;
    /* Asked once a step, so that the step that brings the weights stays complete. */
    *may_send_weights = tap_budget_allows_weights(now);
    return tap_budget_allows_step(now) && (p->is_new_size || tap_budget_allows_time(now))
               ? TAP_RECORD
               : TAP_SKIP_BUDGET;
}

void tap_sampler_note_recorded(struct tap_sampler *p, unsigned class)
{
    p->classes[class] += p->classes[class] < CLASS_STEPS;
}

enum tap_decision tap_sampler_decide(struct tap_sampler *p, int64_t rows, bool *may_send_weights)
{
    unsigned class = tap_sampler_class(rows, false);
    int64_t now = tap_now();
    enum tap_decision decision = tap_sampler_decide_class(p, class, now, may_send_weights);

    if (!p->last_new_size_ns || p->is_new_size)
        p->last_new_size_ns = now;
    if (decision == TAP_RECORD)
        tap_sampler_note_recorded(p, class);
    return decision;
}

uint64_t tap_sampler_steps_to_window(const struct tap_sampler *p, int64_t now)
{
    bool may_be_recorded = tap_plan.mode == TAP_MODE_ALL || !p->last_new_size_ns ||
                           now - p->last_new_size_ns < tap_new_size_ns;

    return may_be_recorded ? 0 : until_window(p->steps);
}

void tap_sampler_skip_steps(struct tap_sampler *p, uint64_t steps)
{
    p->steps += steps;
}

void tap_sampler_charge_time(const struct tap_sampler *p, int64_t ns)
{
    if (!p->is_new_size)
        tap_budget_charge_time(ns);
}
