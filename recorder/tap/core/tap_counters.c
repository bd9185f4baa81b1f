/* tap_counters.c - counters in the page that all threads share.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/core/tap_counters.h"

#include "recorder/tap/core/tap_plan.h"

_Atomic uint32_t tap_counting_threads;

enum tap_count tap_count_of_ops(enum tap_decision decision)
{
    static const enum tap_count count[] = {
        [TAP_UNDECIDED] = TAP_OPS_PARTIAL,      [TAP_RECORD] = TAP_OPS_PARTIAL,
        [TAP_SKIP_SAMPLING] = TAP_OPS_SAMPLING, [TAP_SKIP_BUDGET] = TAP_OPS_BUDGET,
        [TAP_SKIP_RING] = TAP_OPS_RING,         [TAP_SKIP_FLIGHT] = TAP_OPS_FLIGHT,
        [TAP_SKIP_GRAPH] = TAP_OPS_GRAPH};

    return count[decision];
}

enum tap_count tap_count_of_steps(enum tap_decision decision)
{
    static const enum tap_count count[] = {
        [TAP_UNDECIDED] = TAP_STEPS_SAMPLING,     [TAP_RECORD] = TAP_STEPS_SENT,
        [TAP_SKIP_SAMPLING] = TAP_STEPS_SAMPLING, [TAP_SKIP_BUDGET] = TAP_STEPS_BUDGET,
        [TAP_SKIP_RING] = TAP_STEPS_RING,         [TAP_SKIP_FLIGHT] = TAP_STEPS_FLIGHT,
        [TAP_SKIP_GRAPH] = TAP_STEPS_GRAPH};

    return count[decision];
}

void tap_count_in_arm(uint32_t generation, enum tap_count what, uint64_t n, uint64_t bytes)
{
    atomic_fetch_add(&tap_counting_threads, 1);
    if (atomic_load(&tap_generation) == generation && *tap_plan.ours) {
        struct tap_counter *c = &tap_plan.shared->counts[what];

        atomic_fetch_add_explicit(&c->n, n, memory_order_relaxed);
        atomic_fetch_add_explicit(&c->bytes, bytes, memory_order_relaxed);
    }
    atomic_fetch_sub(&tap_counting_threads, 1);
}

void tap_count(enum tap_count what, uint64_t n, uint64_t bytes)
{
    uint32_t generation = atomic_load_explicit(&tap_generation, memory_order_acquire);

    if (generation && (n || bytes))
        tap_count_in_arm(generation, what, n, bytes);
}

void tap_count_skipped(enum tap_decision why, bool steps, uint64_t n, uint64_t bytes)
{
    tap_count(steps ? tap_count_of_steps(why) : tap_count_of_ops(why), n, bytes);
}
