/* gpu_decide.c - what becomes of a GEMM: recorded, in the flight recorder's ring, or counted, and why.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/gpu/flight_dump.h"
#include "recorder/tap/gpu/flight_ring.h"
#include "recorder/tap/gpu/flight_trigger.h"
#include "recorder/tap/gpu/gpu_decide.h"
#include "recorder/tap/gpu/gpu_stage.h"

static _Atomic(void *) wanted_context;

void *tap_gpu_wanted_context(void)
{
    return atomic_load(&wanted_context);
}

void tap_gpu_decide_forget(void)
{
    atomic_store(&wanted_context, NULL);
}

enum tap_count tap_gpu_decide(const struct tap_gpu_steps *s, const struct tap_gpu_last_launch *last,
                              const struct tap_gpu_launch *l, bool joined)
{
    static const enum tap_count why[] = {
        [TAP_UNDECIDED] = TAP_OPS_PARTIAL,           [TAP_RECORD] = TAP_OPS_SENT,
        [TAP_SKIP_SAMPLING] = TAP_OPS_SAMPLING, [TAP_SKIP_BUDGET] = TAP_OPS_BUDGET,
        [TAP_SKIP_RING] = TAP_OPS_RING,         [TAP_SKIP_FLIGHT] = TAP_OPS_FLIGHT,
        [TAP_SKIP_GRAPH] = TAP_OPS_GRAPH};
    const enum tap_decision doing = s->doing;

    if (tap_flight_is_dumping())
        return TAP_OPS_FLIGHT;        /* nothing else goes between the ops of a dump */
    if (l->uncopied && doing == TAP_RECORD)
        return l->in_rotation ? TAP_OPS_ROTATION : TAP_OPS_GRAPH;
    if (joined && !last->recorded)
        return doing == TAP_RECORD ? TAP_OPS_RING : why[doing];
    if (doing != TAP_RECORD || tap_gpu_stage_is_for(l->context))
        return why[doing];
    if (tap_gpu_stage_context())
        return TAP_OPS_UNREADABLE;    /* another device's */
    atomic_store(&wanted_context, l->context);
    return TAP_OPS_RING;
}

static bool may_enter_flight_ring(const struct tap_gpu_steps *s,
                                  const struct tap_gpu_last_launch *last,
                                  const struct tap_gpu_launch *l, uint64_t stream,
                                  const struct td_gpu_work *w, bool joined)
{
    return tap_flight_is_on() && !w->beside && !l->uncopied && stream &&
           s->doing != TAP_UNDECIDED &&
           tap_gpu_stage_is_for(l->context) && (!joined || last->in_flight_ring) &&
           tap_gpu_stage_use_stream(stream);
}

bool tap_gpu_decide_flight(const struct tap_gpu_steps *s, const struct tap_gpu_last_launch *last,
                           const struct tap_gpu_launch *l, uint64_t stream,
                           const struct tap_gpu_kernel *k, const struct td_gpu_work *w,
                           const char *library_function, bool joined, enum tap_count why)
{
    if (may_enter_flight_ring(s, last, l, stream, w, joined) &&
        tap_flight_ring_enter(l, stream, k, w, library_function, joined))
        return true;
    if (joined && last->in_flight_ring)
        tap_flight_ring_cut(TAP_OPS_FAILED); /* its first rows would pass for all of it */
    tap_count(why, !joined, tap_gpu_gemm_copied_bytes(w));
    return false;
}
