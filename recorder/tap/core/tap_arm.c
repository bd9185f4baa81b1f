/* tap_arm.c - arm the tap and put it to sleep.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/core/tap_arm.h"

#include "recorder/tap/core/tap_budget.h"
#include "recorder/tap/core/tap_front.h"
#include "recorder/tap/core/tap_plan.h"
#include "recorder/tap/core/tap_ring_slot.h"
#include "recorder/tap/core/tap_spent.h"
#include "recorder/tap/core/tap_time.h"

static uint32_t last_generation;
/* The recorder's heartbeat as last read, and when it last moved. */
static struct { uint64_t value; int64_t t_ns; } last_beat;

uint32_t tap_last_generation(void)
{
    return last_generation;
}

void tap_disarm(enum tap_asleep why, int wait_ms)
{
    if (!atomic_load(&tap_generation))
        return;
    tap_fronts_stop(wait_ms);
    atomic_store(&tap_generation, 0);
    tap_fronts_set_awake(false);
    atomic_store(&tap_plan.shared->why_asleep, why);
    atomic_store(&tap_plan.shared->armed, 0);
}

bool tap_wait_idle(int ms)
{
    int64_t until = tap_now() + ms * 1000000LL;

    while (!tap_ring_slots_are_idle()) {
        if (tap_now() > until)
            return false;
        tap_sleep_ms(1);
    }
    return true;
}

const char *tap_arm(const struct tap_msg *m)
{
    tap_ring_slots_disown();
    tap_plan.mode = m->mode;
    tap_plan.percent_ppm = m->percent_ppm;
    tap_plan.kinds = m->kinds;
    tap_plan.budget = m->budget_bytes_per_s;
    tap_plan.time_ppm = m->time_ppm;
    tap_plan.no_launches = m->no_launches != 0;
    tap_plan.flight_bytes = (uint64_t)m->flight_mib << 20;
    tap_budget_reset(tap_now());
    if (!++last_generation)
        last_generation = 1;
    last_beat.value = atomic_load(&tap_plan.shared->heartbeat);
    last_beat.t_ns = tap_now();
    atomic_store(&tap_plan.shared->why_asleep, TAP_ASLEEP_ASKED);
    atomic_store(&tap_plan.shared->armed, last_generation);
    atomic_store(&tap_generation, last_generation);
    atomic_store(&tap_plan.shared->counts[TAP_SPENT_US].n, tap_spent_us());
    tap_fronts_set_awake(true);
    return tap_fronts_start();
}

void tap_check_heartbeat(void)
{
    uint64_t beat;

    if (!atomic_load(&tap_generation))
        return;
    beat = atomic_load(&tap_plan.shared->heartbeat);
    if (beat != last_beat.value) {
        last_beat.value = beat;
        last_beat.t_ns = tap_now();
    } else if (tap_now() - last_beat.t_ns > TAP_DEAD_MS * 1000000LL) {
        tap_disarm(TAP_ASLEEP_HEARTBEAT, 0);
    }
}
