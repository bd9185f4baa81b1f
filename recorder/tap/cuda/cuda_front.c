/* cuda_front.c - the front end for CUDA: arming, rests, and the driver's call that loads it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * CUDA's driver loads the tap (CUDA_INJECTION64_PATH). While armed, the tap sees every launch of a
 * kernel by CUPTI's callbacks, whichever library makes it and however that is linked; asleep it is
 * not subscribed to them.
 *
 * Source: CUPTI's documentation of CUDA 13.0 and its headers. Seen on an H100 and an H200:
 * subscribing in a live server takes 12 us, unsubscribing 6 us, any number of times; CUDA calls
 * within a callback are allowed, and those of the driver call the callback again; no destructor
 * runs in vLLM's engine. A process has one subscriber: a profiler that came first is left in
 * peace. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "recorder/tap/core/tap_environ.h"
#include "recorder/tap/cuda/cuda_callback.h"
#include "recorder/tap/cuda/cuda_front.h"
#include "recorder/tap/cuda/cuda_graph_follow.h"
#include "recorder/tap/cuda/cuda_graph_launch.h"
#include "recorder/tap/cuda/cuda_graphs.h"
#include "recorder/tap/cuda/cuda_load.h"
#include "recorder/tap/cuda/cuda_times.h"
#include "recorder/tap/cuda/cuda_twins.h"
#include "recorder/tap/cuda/cupti_watch.h"
#include "recorder/tap/gpu/flight_trigger.h"
#include "recorder/tap/gpu/gpu_gate.h"
#include "recorder/tap/gpu/gpu_own_kernels.h"
#include "recorder/tap/gpu/gpu_session.h"
#include "recorder/tap/gpu/gpu_stage.h"
#include "recorder/tap/gpu/gpu_threads.h"

#define TICK_MS 3
#define IDLE_TICK_MS 20               /* how soon the tap sees that the server computes again */
#define RETRY_NS 1000000000LL

TAP_EXPORT int InitializeInjection(void);

static _Atomic bool injected;
static bool at_work;                  /* armed, and the pipeline of launches is open */
static struct { int64_t began_ns, until_ns; } resting; /* a rest; until_ns 0: there is none */
static const char *not_woken;         /* why the last rest could not be ended; NULL: it could */
/* Why graphs are not watched, though --graphs was asked for. */
static char no_graphs[TAP_TEXT];

/* ---- for the core ---------------------------------------------------------------------------- */

/* The context of the one device that has a primary context; NULL: there are several, or none, and a
 * launch will tell. */
static void *guess_context(void)
{
    int n = 0, i, device, active, found = -1;
    unsigned flags;
    void *context = NULL;

    if (!tap_driver.device_count || !tap_driver.device_get || !tap_driver.primary_state ||
        !tap_driver.primary_retain || tap_driver.device_count(&n))
        return NULL;
    for (i = 0; i < n; i++) {
        if (tap_driver.device_get(&device, i) ||
            tap_driver.primary_state(device, &flags, &active) || !active)
            continue;
        if (found >= 0)
            return NULL;
        found = device;
    }
    /* never released: the memory allocated in it stays too */
    return found < 0 || tap_driver.primary_retain(&context, found) ? NULL : context;
}

/* Be called at each launch. Returns NULL, or why not: then operators of torch and calls of cuBLAS
 * are recorded all the same. */
static const char *watch(void)
{
    const char *why = tap_cuda_load();

    return why ? why : tap_cupti_watch(tap_cuda_on_call);
}

static const char *start(void)
{
    const char *why, *no_flight, *unseen;

    if (!atomic_load(&injected))
        return NULL;
    resting.until_ns = 0;
    not_woken = NULL;
    why = tap_gpu_session_begin(tap_cuda_load_driver(), guess_context);
    at_work = !why;
    if (!why && (tap_cuda_graphs_on() || tap_cuda_twins_on()))
        tap_cuda_graph_launch_arm();
    if (!why)
        tap_cuda_twins_arm();
    tap_gpu_watch_launches(!why);
    if (why)
        return why;
    no_flight = tap_gpu_session_open_flight();
    unseen = tap_wants_launches() ? watch() : NULL;
    return unseen         ? unseen
           : no_flight    ? no_flight
           : no_graphs[0] ? no_graphs
                          : tap_gpu_stage_shortage();
}

static const char *dump_flight(enum tap_dump_reason why)
{
    if (!tap_flight_is_on())
        return "there is no flight recorder in this process";
    return tap_flight_trigger(why) ? NULL : "the flight recorder is being dumped already";
}

static uint32_t flight_mib(void)
{
    return (uint32_t)(tap_flight_ring_bytes() >> 20);
}

/* Count the rest that is over, or is cut short. */
static void count_rest(void)
{
    if (resting.until_ns)
        tap_count(TAP_RESTED_MS, (uint64_t)(tap_now() - resting.began_ns) / 1000000, 0);
    resting.until_ns = 0;
}

static void stop(int wait_ms)
{
    if (!atomic_load(&injected))
        return;
    at_work = false;
    tap_gpu_watch_launches(false);
    if (!tap_cuda_graphs_on())
        tap_cupti_unwatch();
    count_rest();
    tap_gpu_session_end(wait_ms);
    tap_cuda_twins_disarm();
}

/* May the tap rest? Being subscribed costs each launch half a microsecond, so it unsubscribes while
 * the next steps are in no window of the sample. */
static bool may_rest(void)
{
    return tap_gpu_is_watching() && tap_cupti_is_watching() && !tap_cuda_graphs_on() &&
           !tap_flight_is_on();
}

static void rest(int64_t ns)
{
    tap_gpu_watch_launches(false);
    tap_cupti_unwatch();
    tap_gpu_wait_until_outside();
    resting.began_ns = tap_now();
    resting.until_ns = resting.began_ns + ns;
    tap_count(TAP_RESTS, 1, 0);
}

/* End the rest. If that fails (another profiler may have come), the rest goes on, and is tried to
 * end again. */
static void wake(void)
{
    not_woken = tap_cupti_watch(tap_cuda_on_call);
    if (not_woken || !tap_gpu_gate_wake()) {
        tap_cupti_unwatch();
        resting.until_ns = tap_now() + RETRY_NS;
        return;
    }
    count_rest();
    tap_gpu_watch_launches(true);
}

static void tick(void)
{
    int64_t ns;

    if (resting.until_ns && tap_now() >= resting.until_ns)
        wake();
    if (resting.until_ns || !at_work)
        return;
    tap_gpu_session_open_flight();
    tap_gpu_session_tick();
    tap_cuda_twins_tick();
    if (may_rest() && (ns = tap_gpu_gate_rest()) > 0)
        rest(ns);
}

/* Ticks come often where a rest may begin, or is about to end. */
static int tick_ms(void)
{
    int64_t ms = (resting.until_ns - tap_now()) / 1000000 + 1;

    if (resting.until_ns)
        return ms < 1 ? 1 : ms > INT_MAX ? INT_MAX : (int)ms;
    if (at_work && tap_cuda_twins_have_plans())
        return tap_cuda_twins_wanted() ? TICK_MS : IDLE_TICK_MS;
    if (!may_rest() || !tap_is_sampling())
        return INT_MAX;
    return tap_gpu_gate_is_at_work() ? TICK_MS : IDLE_TICK_MS;
}

/* CUDA's state of the parent is of no use in a child. A child that uses CUDA itself is injected
 * anew. */
static void forked(void)
{
    atomic_store(&injected, false);
    tap_cupti_watch_forget();
    at_work = false;
    resting.until_ns = 0;
    tap_cuda_callback_forget();
    tap_gpu_session_forked();
    tap_cuda_graphs_forget();
    tap_cuda_twins_forget();
    tap_cuda_follow_forget();
    tap_cuda_times_forget();
}

static const char *trouble(void)
{
    const char *why = tap_gpu_session_trouble();

    if (!why)
        why = not_woken ? not_woken : tap_gpu_own_kernels_trouble();
    return why ? why : tap_gpu_stage_shortage();
}

/* "CUDA device 1": the devices on which the process computes, by its own count. */
static void name_devices(char *out, size_t n)
{
    int count = 0, i, device, active;
    unsigned flags;
    size_t at = 0;

    if (tap_cuda_load() || !tap_driver.device_count || !tap_driver.device_get ||
        !tap_driver.primary_state || tap_driver.device_count(&count))
        return;
    for (i = 0; i < count && at + 16 < n; i++)
        if (!tap_driver.device_get(&device, i) &&
            !tap_driver.primary_state(device, &flags, &active) && active)
            at += (size_t)snprintf(out + at, n - at, "%s%d", at ? ", " : "CUDA device ", i);
}

static bool describe(char *library, char *build, size_t n)
{
    library[0] = build[0] = '\0';
    if (!atomic_load(&injected))
        return false;
    tap_cuda_library(library, n);
    name_devices(build, n);
    return true;
}

static const char *begin_times(void)
{
    return atomic_load(&injected) ? tap_cuda_times_begin() : "this process does not use CUDA";
}

TAP_FRONT(cuda) = {.name = "cuda",
                   .describe = describe,
                   .set_rows = tap_gpu_own_kernels_set,
                   .start = start,
                   .stop = stop,
                   .tick = tick,
                   .tick_ms = tick_ms,
                   .trouble = trouble,
                   .forked = forked,
                   .dump_flight = dump_flight,
                   .flight_mib = flight_mib,
                   .times_begin = begin_times,
                   .times_end = tap_cuda_times_end,
                   .times_get = tap_cuda_times_get,
                   .times_drop = tap_cuda_times_drop};

bool tap_cuda_injected(void)
{
    return atomic_load_explicit(&injected, memory_order_relaxed);
}

/* With --graphs the tap subscribes before the server can capture anything, and stays subscribed.
 * Without it graphs are seen by their twins, unless the server started with TD_TAP_TWINS=0. */
static void watch_graphs(void)
{
    uint64_t bytes = tap_cuda_graphs_wanted();
    const char *why = bytes ? tap_cuda_load() : NULL;
    char twins[8];

    tap_environ_get("TD_TAP_TWINS", twins, sizeof twins);
    if (!bytes && strcmp(twins, "0"))
        why = tap_cuda_twins_open();
    if (bytes && !why)
        why = tap_cuda_graphs_open(bytes);
    if (bytes && !why && (why = tap_cupti_watch(tap_cuda_on_call)))
        tap_cuda_graphs_close();
    if (why)
        snprintf(no_graphs, sizeof no_graphs, "CUDA graphs are not read: %.*s",
                 (int)sizeof no_graphs - 32, why);
}

/* The driver calls this when it is initialised, in every process that uses CUDA. Returns 1:
 * loaded. */
int InitializeInjection(void)
{
    int e = errno;

    if (!atomic_load(&injected)) {
        tap_cuda_load_driver();       /* operators that repack weights are sampled from now on */
        watch_graphs();
    }
    atomic_store(&tap_gpu_launches_seen, true);
    atomic_store(&injected, true);    /* until now the tap's thread leaves all of CUDA alone */
    tap_start_if_cold();
    errno = e;
    return 1;
}
