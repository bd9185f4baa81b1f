/* tap_budget.h - limits on what recording may cost: bytes per second, and time of the threads that
 * launch on a GPU.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An account is a point in time until which its budget is used up. Recording n bytes moves the
 * point ahead by the time that the budget needs for n bytes; while the point lies in the future,
 * the budget is exceeded. A step is recorded unsliced and charged afterwards, so an account may be
 * overdrawn by one step. An idle time saves up at most one second. Any thread; lock-free, allocates
 * nothing, keeps errno. */
#ifndef TD_RECORDER_TAP_CORE_TAP_BUDGET_H
#define TD_RECORDER_TAP_CORE_TAP_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

struct tap_budget {                   /* each: CLOCK_MONOTONIC ns */
    _Atomic int64_t steps_used_until_ns;   /* bytes of inputs and outputs */
    _Atomic int64_t weights_used_until_ns; /* bytes of weights */
    _Atomic int64_t time_used_until_ns; /* time that threads of the server were held for copies */
};
extern struct tap_budget tap_budget;

void tap_budget_reset(int64_t now);   /* at each arm, by the tap's own thread */

bool tap_budget_allows_step(int64_t now);
bool tap_budget_allows_weights(int64_t now);
bool tap_budget_allows_time(int64_t now);

void tap_budget_charge_step(uint64_t bytes);
void tap_budget_charge_weights(uint64_t bytes);
void tap_budget_charge_time(int64_t ns);

#pragma GCC visibility pop
#endif
