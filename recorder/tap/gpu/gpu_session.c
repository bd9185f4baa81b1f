/* gpu_session.c - one arm of a GPU front, from its beginning to its end.
 * SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include "recorder/tap/core/tap.h"
#include "recorder/tap/gpu/flight_dump.h"
#include "recorder/tap/gpu/flight_ring.h"
#include "recorder/tap/gpu/flight_trigger.h"
#include "recorder/tap/gpu/gpu_decide.h"
#include "recorder/tap/gpu/gpu_gate.h"
#include "recorder/tap/gpu/gpu_sender.h"
#include "recorder/tap/gpu/gpu_session.h"
#include "recorder/tap/gpu/gpu_threads.h"

#define DUMP_NS 150000000LL           /* of one tick, at most */

/* Of this arm. Opening the stage, and the flight recorder's ring, is tried once: what fails now
 * fails again. */
static struct {
    bool tried_stage, tried_flight;
    /* Why the stage could not be opened; NULL: it could, or was not tried. */
    const char *trouble;
} session;

/* ---- the beginning --------------------------------------------------------------------------- */

const char *tap_gpu_session_open_flight(void)
{
    void *context = tap_gpu_stage_context();

    if (!tap_flight_bytes() || !context || session.tried_flight)
        return NULL;
    session.tried_flight = true;
    return tap_flight_ring_open(context, tap_flight_bytes());
}

/* While nobody is inside the tap, and the sender rests. False: no memory. */
static bool clear_pipeline(void)
{
    if (!tap_gpu_kernels_clear() || !tap_gpu_queue_clear())
        return false;
    tap_gpu_stage_free(tap_gpu_stage_end());
    tap_gpu_weight_sets_clear();
    tap_flight_ring_clear();
    tap_flight_dump_clear();
    tap_gpu_gate_open();
    return true;
}

const char *tap_gpu_session_begin(const char *why, void *(*guess)(void))
{
    void *context;

    session.tried_stage = session.tried_flight = false;
    session.trouble = NULL;
    if (!why && (tap_gpu_is_anybody_inside() || tap_gpu_sender_is_busy()))
        why = "a launch or a copy of the last arm is not over yet; arm again later";
    if (!why && tap_gpu_stage_is_gone()) {
        tap_gpu_stage_forget();
        tap_flight_ring_forget();
    }
    if (!why && tap_gpu_stage_is_broken())
        why = "the GPU's driver refused copies in an earlier arm; start the server again";
    if (!why && !tap_gpu_stage_is_quiet())
        why = "the GPU is still at work for the last arm; arm again later";
    if (!why && tap_gpu_stage_context())
        tap_gpu_stage_grow();
    else if (!why && (context = guess()))
        why = tap_gpu_stage_open(context);
    if (!why && (!clear_pipeline() || !tap_gpu_sender_start()))
        why = "no memory, or no thread, for the launches of the GPU";
    return why;
}

/* ---- while it goes on ------------------------------------------------------------------------ */

static void nap(void)
{
    nanosleep(&(struct timespec){0, 1000000}, NULL);
}

static void dump_until(int64_t until)
{
    while (tap_flight_is_dumping() && tap_now() < until) {
        tap_gpu_gate_dump();
        nap();
    }
}

void tap_gpu_session_tick(void)
{
    void *wanted = tap_gpu_wanted_context();

    if (wanted && !session.tried_stage && !tap_gpu_stage_context()) {
        session.tried_stage = true;
        session.trouble = tap_gpu_stage_open(wanted);
    }
    tap_gpu_gate_tick(false);
    dump_until(tap_now() + DUMP_NS);
}

const char *tap_gpu_session_trouble(void)
{
    return session.trouble;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* What was copied last may trigger a dump yet; and a dump that has begun goes on to its end. */
static void finish_dump(int wait_ms)
{
    /* The flight recorder's ring may be many times the stage's. */
    int64_t until = tap_now() + 3 * wait_ms * 1000000LL;

    if (wait_ms > 0)
        tap_gpu_gate_tick(true);
    while (!tap_gpu_queue_is_empty() && !tap_flight_is_dumping() && tap_now() < until)
        nap();
    dump_until(until);
}

void tap_gpu_session_end(int wait_ms)
{
    tap_gpu_watch_launches(false);
    /* Or somebody stands in the driver, whom closing the gate can do without. */
    tap_gpu_wait_until_outside();
    if (tap_flight_is_on()) {
        tap_gpu_gate_abandon();
        finish_dump(wait_ms);
    }
    tap_gpu_gate_close();
    tap_gpu_sender_stop(wait_ms);
}

void tap_gpu_session_forked(void)
{
    tap_gpu_threads_forget();
    tap_gpu_gate_forget();
    tap_gpu_stage_forget();
    tap_flight_ring_forget();
    tap_gpu_sender_forget();
}
