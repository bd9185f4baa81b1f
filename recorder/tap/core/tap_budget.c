/* tap_budget.c - limits on what recording may cost.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/core/tap_budget.h"

#include "recorder/tap/core/tap_plan.h"

#define SAVED_MAX_NS 1000000000LL     /* budget that an idle time may save up */
/* One step is charged at most this: its thread may have lost its core, or waited for the GPU. */
#define DEBT_MAX_NS 5e9

struct tap_budget tap_budget;

void tap_budget_reset(int64_t now)
{
    atomic_store(&tap_budget.steps_used_until_ns, now);
    atomic_store(&tap_budget.weights_used_until_ns, now);
    atomic_store(&tap_budget.time_used_until_ns, now);
}

static bool allows(_Atomic int64_t *used_until_ns, int64_t now)
{
    int64_t until = atomic_load_explicit(used_until_ns, memory_order_relaxed);

    if (until < now - SAVED_MAX_NS)
        atomic_compare_exchange_strong(used_until_ns, &until, now - SAVED_MAX_NS);
    return until <= now;
}

bool tap_budget_allows_step(int64_t now)
{
    return tap_plan.budget <= 0 || allows(&tap_budget.steps_used_until_ns, now);
}

bool tap_budget_allows_weights(int64_t now)
{
    return tap_plan.budget <= 0 || allows(&tap_budget.weights_used_until_ns, now);
}

bool tap_budget_allows_time(int64_t now)
{
    return !tap_plan.time_ppm || allows(&tap_budget.time_used_until_ns, now);
}

static void charge_bytes(_Atomic int64_t *used_until_ns, uint64_t bytes)
{
    if (tap_plan.budget > 0)
        atomic_fetch_add_explicit(used_until_ns,
                                  (int64_t)((double)bytes * 1e9 / (double)tap_plan.budget),
                                  memory_order_relaxed);
}

void tap_budget_charge_step(uint64_t bytes)
{
    charge_bytes(&tap_budget.steps_used_until_ns, bytes);
}

void tap_budget_charge_weights(uint64_t bytes)
{
    charge_bytes(&tap_budget.weights_used_until_ns, bytes);
}

void tap_budget_charge_time(int64_t ns)
{
    double debt;

    if (!tap_plan.time_ppm)
        return;
    debt = (double)ns * 1e6 / tap_plan.time_ppm;
    atomic_fetch_add_explicit(&tap_budget.time_used_until_ns,
                              (int64_t)(debt < DEBT_MAX_NS ? debt : DEBT_MAX_NS),
                              memory_order_relaxed);
}
