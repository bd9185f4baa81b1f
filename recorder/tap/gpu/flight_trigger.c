/* flight_trigger.c - is the flight recorder on, and is its ring being dumped?
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/gpu/flight_trigger.h"

static struct {
    uint64_t ring_bytes;
    _Atomic bool on;
    _Atomic bool had_output;          /* an output's trigger, in this arm */
    _Atomic uint32_t dumping;         /* enum tap_dump_reason */
    _Atomic int64_t t_ns;             /* of the trigger */
    _Atomic uint64_t dumps;           /* that have come */
} flight;

bool tap_flight_is_on(void)
{
    return atomic_load_explicit(&flight.on, memory_order_acquire);
}

bool tap_flight_is_dumping(void)
{
    return atomic_load_explicit(&flight.dumping, memory_order_acquire) != TAP_DUMP_NONE;
}

uint64_t tap_flight_ring_bytes(void)
{
    return tap_flight_is_on() ? flight.ring_bytes : 0;
}

bool tap_flight_trigger(enum tap_dump_reason why)
{
    bool output = why == TAP_DUMP_NOT_FINITE || why == TAP_DUMP_ZERO;
    uint32_t none = TAP_DUMP_NONE;

    if (!tap_flight_is_on() || tap_flight_is_dumping() ||
        (output && atomic_exchange(&flight.had_output, true)))
        return false;
    atomic_store(&flight.t_ns, tap_now());
    return atomic_compare_exchange_strong(&flight.dumping, &none, why);
}

void tap_flight_false_alarm(void)
{
    atomic_store(&flight.had_output, false);
}

void tap_flight_dumped(void)
{
    atomic_fetch_add(&flight.dumps, 1);
    atomic_store(&flight.dumping, TAP_DUMP_NONE);
}

enum tap_dump_reason tap_flight_dump_reason(uint64_t *number, int64_t *t_ns)
{
    *number = atomic_load(&flight.dumps) + 1;
    *t_ns = atomic_load(&flight.t_ns);
    return (enum tap_dump_reason)atomic_load(&flight.dumping);
}

void tap_flight_set_on(uint64_t ring_bytes)
{
    if (ring_bytes)
        flight.ring_bytes = ring_bytes;
    atomic_store(&flight.on, ring_bytes != 0);
    if (!ring_bytes)
        atomic_store(&flight.dumping, TAP_DUMP_NONE);
}

void tap_flight_clear(void)
{
    atomic_store(&flight.on, false);
    atomic_store(&flight.had_output, false);
    atomic_store(&flight.dumping, TAP_DUMP_NONE);
    atomic_store(&flight.dumps, 0);
}
