/* cuda_front.c - the front end for CUDA: loaded by the driver (CUDA_INJECTION64_PATH), it sees every launch of a kernel through CUPTI's callbacks,
 * whoever makes it and however it is linked, while it is armed; asleep it is not subscribed.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: CUPTI's documentation of CUDA 13.0 and its headers (tap_cuda_abi.h); seen on an H100 and an H200: subscribing in a live server takes 12 us,
 * unsubscribing 6 us, any number of times; CUDA calls within a callback are allowed, those of the driver call the callback again; no destructor
 * runs in vLLM's engine. A process has one subscriber: a profiler that came first is left in peace. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "recorder/tap/gpu/flight_ring.h"

#define KEEP_NS 150000000LL           /* in one tick */
#define CALLBACK_MS 200               /* how long a callback may still be running */
#define TICK_MS 3
#define IDLE_TICK_MS 20               /* so soon it is seen that the server computes again */
#define RETRY_NS 1000000000LL

TAP_EXPORT int InitializeInjection(void);

static _Atomic bool injected;
static _Atomic bool watching;         /* else a callback that comes late does nothing: all may be about to change */
static _Atomic uint32_t inside;       /* of the server's threads: how many are in here */
static bool opened, flight_tried;     /* the same: in this arm the stage, and the flight recorder's ring, was tried */
static struct { int64_t began_ns, until_ns; } resting; /* the same; until_ns 0: it does not */
static const char *late;              /* why the stage could not be opened then; NULL: it could */
static char no_graphs[TAP_TEXT];      /* why they are not watched, though they should be */

static __thread __attribute__((tls_model("initial-exec"))) struct {
    bool busy;                        /* our own calls into the driver come by here too */
    uint64_t token;                   /* of a launch that is taken, between its two callbacks */
    bool covered;                     /* launches are parts of a product */
    struct tap_cuda_slot *slot;       /* of a launch that is captured, between its two callbacks */
    const void *exec;                 /* a graph that is launched, the same */
} me;

bool tap_cuda_come_in(void)
{
    atomic_fetch_add(&inside, 1);
    if (atomic_load(&watching))
        return true;
    atomic_fetch_sub(&inside, 1);
    return false;
}

void tap_cuda_go_out(void)
{
    atomic_fetch_sub(&inside, 1);
}

/* ---- a callback ---------------------------------------------------------------------------------------------------- */

/* The packed form: words of `extra`, with the block's address and size. */
static void read_extra(struct tap_cuda_launch *l, void *const *extra)
{
    int i;

    for (i = 0; i < 8 && extra && (uintptr_t)extra[i] != TAP_CUDA_PARAM_END; i += 2) {
        if ((uintptr_t)extra[i] == TAP_CUDA_PARAM_BUFFER_POINTER)
            l->packed = extra[i + 1];
        else if ((uintptr_t)extra[i] == TAP_CUDA_PARAM_BUFFER_SIZE && extra[i + 1])
            l->packed_bytes = *(const size_t *)extra[i + 1];
    }
}

static void read_launch(struct tap_cuda_launch *l, const struct tap_cuda_launch_params *p, bool has_extra)
{
    l->function = p->function;
    l->stream = p->stream;
    memcpy(l->grid, p->grid, sizeof l->grid);
    memcpy(l->block, p->block, sizeof l->block);
    l->shared_bytes = p->shared_bytes;
    l->params = p->params;
    if (!l->params && has_extra)
        read_extra(l, p->extra);
}

static void read_launch_ex(struct tap_cuda_launch *l, const struct tap_cuda_launch_ex_params *p)
{
    const struct tap_cuda_launch_config *c = p->config;
    struct tap_cuda_launch_params as = {.function = p->function, .shared_bytes = c->shared_bytes, .stream = c->stream, .params = p->params, .extra = p->extra};

    memcpy(as.grid, c->grid, sizeof as.grid);
    memcpy(as.block, c->block, sizeof as.block);
    read_launch(l, &as, true);
}

/* False: no launch of a kernel. */
static bool read_call(struct tap_cuda_launch *l, uint32_t cbid, const struct tap_cupti_data *d)
{
    bool per_thread = false;

    memset(l, 0, sizeof *l);
    l->context = d->context;
    switch (cbid) {
    case TAP_CBID_LAUNCH_KERNEL_PTSZ:
    case TAP_CBID_LAUNCH_COOPERATIVE_PTSZ:
        per_thread = true;            /* fall through */
    case TAP_CBID_LAUNCH_KERNEL:
    case TAP_CBID_LAUNCH_COOPERATIVE:
        read_launch(l, d->params, cbid == TAP_CBID_LAUNCH_KERNEL || cbid == TAP_CBID_LAUNCH_KERNEL_PTSZ);
        break;
    case TAP_CBID_LAUNCH_KERNEL_EX_PTSZ:
        per_thread = true;            /* fall through */
    case TAP_CBID_LAUNCH_KERNEL_EX:
        if (!((const struct tap_cuda_launch_ex_params *)d->params)->config)
            return false;
        read_launch_ex(l, d->params);
        break;
    default:
        return false;
    }
    if (per_thread && !l->stream)
        l->stream = TAP_CUDA_STREAM_PER_THREAD;
    return true;
}

static bool is_graph_launch(uint32_t cbid)
{
    return cbid == TAP_CBID_GRAPH_LAUNCH || cbid == TAP_CBID_GRAPH_LAUNCH_PTSZ;
}

static void *graph_stream(uint32_t cbid, const struct tap_cupti_data *d)
{
    const struct tap_cuda_graph_launch_params *p = d->params;

    return cbid == TAP_CBID_GRAPH_LAUNCH_PTSZ && !p->stream ? TAP_CUDA_STREAM_PER_THREAD : p->stream;
}

uint64_t tap_cuda_launched(const struct tap_cuda_launch *l, const char *symbol)
{
    struct tap_cuda_kernel *k = tap_cuda_kernel_of(l->function, symbol);

    if (k)
        atomic_fetch_add_explicit(me.covered ? &k->covered : &k->n, 1, memory_order_relaxed);
    else
        tap_count(TAP_LAUNCHES, 1, 0); /* those of kernels are counted by the sender, all at once */
    if (k && k->row)
        return tap_cuda_gate_enter(l, k);
    tap_cuda_gate_other();
    return 0;
}

static void entered(uint32_t cbid, const struct tap_cupti_data *d)
{
    struct tap_cuda_launch l;

    if (is_graph_launch(cbid)) {
        const struct tap_cuda_graph_launch_params *p = d->params;

        tap_count(TAP_GRAPHS, 1, 0);
        tap_cuda_gate_other();
        me.exec = tap_cuda_graphs_on() ? p->exec : NULL;
        return;
    }
    if (!read_call(&l, cbid, d))
        return;
    me.token = tap_cuda_launched(&l, d->symbol);
}

static void left(uint32_t cbid, const struct tap_cupti_data *d)
{
    bool ok = d->result && *(const int *)d->result == 0;
    const void *exec = me.exec;
    struct tap_cuda_launch l;
    uint64_t token = me.token;

    me.token = 0;
    me.exec = NULL;
    if (exec && ok && is_graph_launch(cbid) && tap_armed())
        tap_cuda_graphs_launched(exec, graph_stream(cbid, d), d->context);
    else if (token && read_call(&l, cbid, d))
        tap_cuda_gate_leave(token, &l, ok);
}

/* What becomes a graph, and what is done to graphs, is looked at while asleep too. True: it was that. */
static bool of_graphs(uint32_t cbid, const struct tap_cupti_data *d)
{
    struct tap_cuda_slot *slot = me.slot;
    struct tap_cuda_launch l;

    if (d->site == TAP_CUPTI_ENTER && is_graph_launch(cbid))
        me.exec = NULL;               /* of one whose end was not watched */
    if (d->site == TAP_CUPTI_ENTER && is_graph_launch(cbid))
        tap_cuda_graphs_launch(((const struct tap_cuda_graph_launch_params *)d->params)->exec, graph_stream(cbid, d));
    if (is_graph_launch(cbid))
        return false;
    me.slot = NULL;
    if (!read_call(&l, cbid, d))
        return tap_cuda_graphs_call(cbid, d);
    if (d->site == TAP_CUPTI_ENTER)
        return tap_cuda_graphs_enter(&l, d->symbol, &me.slot);
    if (slot)
        tap_cuda_graphs_leave(slot, &l, d->result && *(const int *)d->result == 0);
    return slot;
}

void tap_cuda_on_call(void *user, int domain, uint32_t cbid, const void *data)
{
    const struct tap_cupti_data *d = data;
    int e = errno;

    (void)user;
    if (domain != TAP_CUPTI_DOMAIN_DRIVER || me.busy || (d->site == TAP_CUPTI_EXIT && !me.token && !tap_cuda_graphs_on()))
        return;
    me.busy = true;
    if ((!tap_cuda_graphs_on() || !of_graphs(cbid, d)) && tap_cuda_come_in()) {
        if (tap_armed() && d->site == TAP_CUPTI_ENTER)
            entered(cbid, d);
        else if (me.token || me.exec)
            left(cbid, d);
        tap_cuda_go_out();
    }
    me.busy = false;
    errno = e;
}

bool tap_cuda_own(bool on)
{
    bool before = me.busy;

    me.busy = on;
    return before;
}

bool tap_cuda_cover(bool on)
{
    bool before = me.covered;

    me.covered = on;
    return before;
}

/* ---- for the core -------------------------------------------------------------------------------------------------- */

/* Of the devices with a primary context, if there is but one; else a launch will tell. */
static void *guess_context(void)
{
    int n = 0, i, device, active, found = -1;
    unsigned flags;
    void *context = NULL;

    if (!tap_driver.device_count || !tap_driver.device_get || !tap_driver.primary_state || !tap_driver.primary_retain || tap_driver.device_count(&n))
        return NULL;
    for (i = 0; i < n; i++) {
        if (tap_driver.device_get(&device, i) || tap_driver.primary_state(device, &flags, &active) || !active)
            continue;
        if (found >= 0)
            return NULL;
        found = device;
    }
    return found < 0 || tap_driver.primary_retain(&context, found) ? NULL : context; /* kept: what we allocate in it is kept too */
}

/* The flight recorder, if this arm asked for it. */
static const char *open_flight(void)
{
    void *context = tap_cuda_stage_context();

    if (!tap_flight_wanted() || !context || flight_tried)
        return NULL;
    flight_tried = true;              /* once an arm: what fails now fails again */
    return tap_cuda_flight_open(context, tap_flight_wanted());
}

const char *tap_cuda_begin(const char *why, void *(*guess)(void))
{
    void *context;

    opened = flight_tried = false;
    resting.until_ns = 0;
    late = NULL;
    if (!why && (atomic_load(&inside) || tap_cuda_send_busy()))
        why = "a launch or a copy of the last arm is not over yet; arm again later";
    if (!why && tap_cuda_stage_gone()) {
        tap_cuda_stage_forget();
        tap_cuda_flight_forget();
    }
    if (!why && tap_cuda_stage_broken())
        why = "the GPU's driver refused copies in an earlier arm; start the server again";
    if (!why && !tap_cuda_stage_quiet())
        why = "the GPU is still at work for the last arm; arm again later";
    if (!why && tap_cuda_stage_context())
        tap_cuda_stage_grow();
    else if (!why && (context = guess()))
        why = tap_cuda_stage_open(context);
    if (!why && (!tap_cuda_kernels_clear() || !tap_cuda_gate_open() || !tap_cuda_send_start()))
        why = "no memory, or no thread, for the launches of the GPU";
    if (!why)
        tap_cuda_graphs_arm();
    atomic_store(&watching, !why);
    return why;
}

static const char *start(void)
{
    const char *why, *no_flight = NULL;

    if (!atomic_load(&injected))
        return NULL;
    why = tap_cuda_begin(tap_cuda_load(), guess_context);
    if (!why) {
        no_flight = open_flight();
        why = tap_cuda_watch();
    }
    return why ? why : no_flight ? no_flight : no_graphs[0] ? no_graphs : tap_cuda_stage_short();
}

/* Nobody is in a callback any more; or somebody stands in the driver, whom close() below can do without. */
static void wait_callbacks(void)
{
    int64_t until = tap_now() + CALLBACK_MS * 1000000LL;
    struct timespec t = {0, 100000};

    while (atomic_load(&inside) && tap_now() < until)
        nanosleep(&t, NULL);
}

static void nap(void)
{
    nanosleep(&(struct timespec){0, 1000000}, NULL);
}

static void keep_until(int64_t until)
{
    while (tap_cuda_flight_keeping() && tap_now() < until) {
        tap_cuda_gate_keep();
        nap();
    }
}

/* What was copied last may show something yet; and what is being kept is kept to its end. */
static void keep_rest(int wait_ms)
{
    int64_t until = tap_now() + 3 * wait_ms * 1000000LL; /* it may be many times the stage's ring */

    if (wait_ms > 0)
        tap_cuda_gate_tick(true);
    while (!tap_cuda_queue_empty() && !tap_cuda_flight_keeping() && tap_now() < until)
        nap();
    keep_until(until);
}

const char *tap_cuda_keep(enum tap_flight why)
{
    if (!tap_cuda_flight_on())
        return "there is no flight recorder in this process";
    return tap_cuda_flight_trigger(why) ? NULL : "it is being kept already";
}

uint32_t tap_cuda_flight_mib(void)
{
    return (uint32_t)(tap_cuda_flight_bytes() >> 20);
}

void tap_cuda_end(int wait_ms)
{
    atomic_store(&watching, false);
    wait_callbacks();
    if (tap_cuda_flight_on()) {
        tap_cuda_gate_abandon();
        keep_rest(wait_ms);
    }
    tap_cuda_gate_close();
    tap_cuda_send_stop(wait_ms);
}

/* If one is over, or is cut short. */
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
    atomic_store(&watching, false);
    if (!tap_cuda_graphs_on())
        tap_cuda_unwatch();
    count_rest();
    tap_cuda_end(wait_ms);
}

void tap_cuda_tick(void)
{
    void *wanted = tap_cuda_gate_context();

    if (wanted && !opened && !tap_cuda_stage_context()) {
        opened = true;                /* once an arm: what fails now fails again */
        late = tap_cuda_stage_open(wanted);
    }
    tap_cuda_gate_tick(false);
    keep_until(tap_now() + KEEP_NS);
}

/* Nothing is watched while the next passes are in no window of the sample: being subscribed costs each launch half a microsecond (docs/tap.md). */
static bool may_rest(void)
{
    return atomic_load(&watching) && tap_cuda_watched() && !tap_cuda_graphs_on() && !tap_cuda_flight_on();
}

static void rest(int64_t ns)
{
    atomic_store(&watching, false);
    tap_cuda_unwatch();
    wait_callbacks();
    resting.began_ns = tap_now();
    resting.until_ns = resting.began_ns + ns;
    tap_count(TAP_RESTS, 1, 0);
}

/* Another profiler may have come: then the rest goes on, and it is tried again. */
static void wake(void)
{
    static const char *taken;
    const char *why = tap_cuda_watch();

    if (late == taken)
        late = NULL;
    taken = why;
    late = late ? late : why;
    if (why || !tap_cuda_gate_wake()) {
        tap_cuda_unwatch();
        resting.until_ns = tap_now() + RETRY_NS;
        return;
    }
    count_rest();
    atomic_store(&watching, true);
}

static void tick(void)
{
    int64_t ns;

    if (resting.until_ns && tap_now() >= resting.until_ns)
        wake();
    if (resting.until_ns || !tap_cuda_watched())
        return;
    open_flight();
    tap_cuda_tick();
    if (may_rest() && (ns = tap_cuda_gate_rest()) > 0)
        rest(ns);
}

/* Soon where a rest may begin, or is over: it is some passes long. */
static int tick_ms(void)
{
    int64_t ms = (resting.until_ns - tap_now()) / 1000000 + 1;

    if (resting.until_ns)
        return ms < 1 ? 1 : ms > INT_MAX ? INT_MAX : (int)ms;
    if (!may_rest() || !tap_is_sampling())
        return INT_MAX;
    return tap_cuda_gate_is_at_work() ? TICK_MS : IDLE_TICK_MS;
}

void tap_cuda_forked(void)
{
    atomic_store(&watching, false);
    atomic_store(&inside, 0);
    me.busy = me.covered = false;
    me.token = 0;
    me.slot = NULL;
    me.exec = NULL;
    tap_cuda_gate_forget();
    tap_cuda_stage_forget();
    tap_cuda_flight_forget();
    tap_cuda_send_forget();
    tap_cuda_graphs_forget();
}

/* What was CUDA's in the parent is of no use here. A child that uses CUDA itself is injected anew. */
static void forked(void)
{
    atomic_store(&injected, false);
    tap_cuda_watch_forget();
    resting.until_ns = 0;
    tap_cuda_forked();
}

static const char *trouble(void)
{
    return late ? late : tap_cuda_stage_short();
}

/* "CUDA device 1": the process's own count of them, those on which it computes. */
static void name_devices(char *out, size_t n)
{
    int count = 0, i, device, active;
    unsigned flags;
    size_t at = 0;

    if (tap_cuda_load() || !tap_driver.device_count || !tap_driver.device_get || !tap_driver.primary_state || tap_driver.device_count(&count))
        return;
    for (i = 0; i < count && at + 16 < n; i++)
        if (!tap_driver.device_get(&device, i) && !tap_driver.primary_state(device, &flags, &active) && active)
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

const struct tap_front tap_front_cuda = {.name = "cuda", .describe = describe, .start = start, .stop = stop, .tick = tick, .tick_ms = tick_ms, .trouble = trouble, .forked = forked};

bool tap_cuda_injected(void)
{
    return atomic_load_explicit(&injected, memory_order_relaxed);
}

/* With --graphs: subscribed before the server can capture anything, and for good. */
static void watch_graphs(void)
{
    uint64_t bytes = tap_cuda_graphs_wanted();
    const char *why = bytes ? tap_cuda_load() : NULL;

    if (bytes && !why)
        why = tap_cuda_graphs_open(bytes);
    if (bytes && !why && (why = tap_cuda_watch()))
        tap_cuda_graphs_close();
    if (why)
        snprintf(no_graphs, sizeof no_graphs, "graphs are not read, though --graphs was asked for: %.*s", (int)sizeof no_graphs - 56, why);
}

/* Called by the driver when it is initialised, in every process that uses CUDA. 1: loaded. */
int InitializeInjection(void)
{
    int e = errno;

    if (!atomic_load(&injected))
        watch_graphs();
    atomic_store(&injected, true);    /* before this the tap's thread leaves all of CUDA alone */
    tap_take_note();
    errno = e;
    return 1;
}
