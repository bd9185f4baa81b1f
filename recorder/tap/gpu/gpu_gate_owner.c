/* gpu_gate_owner.c - who is inside the launch gate.
 * SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <stdatomic.h>

#include "recorder/tap/gpu/flight_trigger.h"
#include "recorder/tap/gpu/gpu_gate_owner.h"
#include "recorder/tap/gpu/gpu_stage.h"

#define HELD UINT64_MAX               /* by a thread of the server */
#define HELD_BY_TAP (UINT64_MAX - 1)  /* by the tap's thread */
/* How long a launch waits for the tap's thread, at most. That thread holds the gate for some calls
 * of the driver, once the server has been idle, and may lose its core meanwhile. */
#define WAIT_NS 5000000LL
#define SPIN_NS 50000LL               /* of WAIT_NS, without giving the core away */

/* 0: free; HELD, HELD_BY_TAP; else the token of the launch that is being made. */
static _Atomic uint64_t gate_owner;

bool tap_gpu_gate_hold(void)
{
    uint64_t owner = 0;
    int64_t until = 0;

    while (!atomic_compare_exchange_weak(&gate_owner, &owner, HELD)) {
        if (owner == HELD_BY_TAP && !tap_flight_is_dumping()) {
            int64_t now = tap_now();

            until = until ? until : now + WAIT_NS;
            if (now > until)
                return false;
            if (until - now < WAIT_NS - SPIN_NS)
                sched_yield();
        } else if (owner) {
            return false;
        }
        owner = 0;
    }
    return true;
}

bool tap_gpu_gate_hold_again(uint64_t token)
{
    return atomic_compare_exchange_strong(&gate_owner, &token, HELD);
}

void tap_gpu_gate_hand_to(uint64_t token)
{
    atomic_store_explicit(&gate_owner, token, memory_order_release);
}

bool tap_gpu_gate_hold_for_tap(bool abandon, void **context)
{
    uint64_t owner = atomic_load(&gate_owner);
    int mode = TD_CUDA_CAPTURE_MODE_RELAXED;

    if ((owner && !abandon) || owner == HELD ||
        !atomic_compare_exchange_strong(&gate_owner, &owner, HELD_BY_TAP))
        return false;
    *context = tap_gpu_stage_context();
    if (*context && (tap_driver.exchange_capture_mode(&mode) || tap_driver.ctx_push(*context)))
        *context = NULL;
    if (*context && !tap_gpu_stage_is_for(*context)) {
        tap_driver.ctx_pop(context);
        *context = NULL;
    }
    if (owner)
        tap_count(TAP_OPS_PARTIAL, 1, 0);
    return true;
}

void tap_gpu_gate_release(void *context)
{
    if (context)
        tap_driver.ctx_pop(&context);
    tap_gpu_gate_hand_to(0);
}
