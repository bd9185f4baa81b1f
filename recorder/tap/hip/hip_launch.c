/* hip_launch.c - the front end for HIP: what happens around a launch, arming.
 * SPDX-License-Identifier: Apache-2.0
 *
 * hipGetLastError is part of what a server sees. Up to ROCm 6 every call overwrites a thread's last error, a success too; from 7 on only errors do
 * (HIP_RETURN in clr's hip_internal.hpp). So nothing is called after a launch that failed, and an error of our own is taken back. */
#include <errno.h>

#include "recorder/tap/hip/hip_parts.h"

static _Atomic bool awake = true, used, on; /* on: armed, and launches are ours to look at */
static _Atomic(const void *) any_real;
static _Atomic int device = -1;       /* the only one that hipSetDevice named; -1: none yet, -2: several */
static __thread __attribute__((tls_model("initial-exec"))) unsigned depth; /* launches within launches */

bool tap_hip_awake(void)
{
    return atomic_load_explicit(&awake, memory_order_relaxed);
}

bool tap_hip_used(void)
{
    return atomic_load_explicit(&used, memory_order_relaxed);
}

void tap_hip_seen(void)
{
    if (!tap_hip_used())
        atomic_store_explicit(&used, true, memory_order_relaxed);
    if (tap_hip_awake())
        tap_take_note();
}

void tap_hip_device_set(int ordinal)
{
    int none = -1;

    if (!atomic_compare_exchange_strong(&device, &none, ordinal) && none != ordinal)
        atomic_store(&device, -2);
}

/* ---- around a launch ----------------------------------------------------------------------------------------------- */

static bool is_plain(const void *stream)
{
    return stream && stream != TAP_HIP_STREAM_LEGACY && stream != TAP_HIP_STREAM_PER_THREAD;
}

/* A stream's device; of those that every device has one of, the thread's. */
static void *context_of(void *stream)
{
    int of = is_plain(stream) ? tap_hip.stream_device(stream) : -1;

    return of < 0 && tap_hip.get_device(&of) ? NULL : tap_hip_context(of);
}

/* The packed form: words of `extra`, with the block's address and size. */
static void read_extra(struct tap_cuda_launch *l, void *const *extra)
{
    int i;

    for (i = 0; i < 8 && extra && (uintptr_t)extra[i] != TAP_HIP_PARAM_END; i += 2) {
        if ((uintptr_t)extra[i] == TAP_HIP_PARAM_BUFFER_POINTER)
            l->packed = extra[i + 1];
        else if ((uintptr_t)extra[i] == TAP_HIP_PARAM_BUFFER_SIZE && extra[i + 1])
            l->packed_bytes = *(const size_t *)extra[i + 1];
    }
}

static void read_call(struct tap_hip_call *c)
{
    struct tap_cuda_launch *l = &c->launch;
    int i;

    *l = (struct tap_cuda_launch){.function = (void *)(uintptr_t)(c->stub ? c->stub : c->function), .shared_bytes = (unsigned)c->shared_bytes,
                                  .stream = c->per_thread && !c->stream ? TAP_HIP_STREAM_PER_THREAD : c->stream, .params = c->params};
    for (i = 0; i < 3; i++) {
        l->block[i] = c->block[i];
        l->grid[i] = c->items && c->block[i] ? c->grid[i] / c->block[i] + (c->grid[i] % c->block[i] != 0) : c->grid[i];
    }
    l->context = context_of(l->stream);
    if (!l->params)
        read_extra(l, c->extra);
}

static const char *name_of(const struct tap_hip_call *c)
{
    if (c->stub)
        return tap_hip.stub_name(c->stub, is_plain(c->stream) ? c->stream : NULL);
    return c->function ? tap_hip.function_name((void *)(uintptr_t)c->function) : NULL;
}

void tap_hip_mend(int error_before)
{
    if (!error_before && tap_hip.peek_error())
        tap_hip.clear_error();
}

static void note(const void *real)
{
    if (!atomic_load_explicit(&any_real, memory_order_relaxed))
        atomic_store_explicit(&any_real, real, memory_order_relaxed);
    tap_hip_seen();
}

bool tap_hip_come_in(void)
{
    if (!tap_armed() || !atomic_load(&on) || !tap_cuda_come_in())
        return false;
    if (atomic_load(&on))
        return true;
    tap_cuda_go_out();
    return false;
}

void tap_hip_enter(struct tap_hip_call *c, const void *real)
{
    int e = errno, before;

    if (depth++)
        return;
    note(real);
    if (tap_hip_come_in()) {
        before = tap_hip.peek_error();
        read_call(c);
        c->token = tap_cuda_launched(&c->launch, name_of(c));
        tap_hip_mend(before);
        tap_cuda_go_out();
    }
    errno = e;
}

int tap_hip_leave(struct tap_hip_call *c, int rc)
{
    int e = errno, before;

    if (--depth || !c->token)
        return rc;
    if (tap_hip_come_in()) {
        before = rc ? -1 : tap_hip.peek_error();
        tap_cuda_gate_leave(c->token, &c->launch, rc == 0); /* calls nothing of HIP when the launch failed */
        if (!rc)
            tap_hip_mend(before);
        tap_cuda_go_out();
    }
    errno = e;
    return rc;
}

void tap_hip_graph(const void *real)
{
    int e = errno;

    if (!depth) {
        note(real);
        if (tap_hip_come_in()) {
            tap_count(TAP_GRAPHS, 1, 0);
            tap_cuda_go_out();
        }
    }
    errno = e;
}

/* ---- for the core -------------------------------------------------------------------------------------------------- */

static void set_awake(bool yes)
{
    atomic_store(&awake, yes);
}

/* Who never names a device has the first. */
static void *guess_context(void)
{
    int d = atomic_load(&device);

    return d == -2 ? NULL : tap_hip_context(d < 0 ? 0 : d);
}

static const char *start(void)
{
    const char *why;

    if (!tap_hip_used())
        return NULL;
    if (tap_cuda_injected())
        return "this process uses CUDA and HIP: only CUDA's launches are seen";
    why = tap_cuda_begin(tap_hip_load(atomic_load(&any_real)), guess_context);
    atomic_store(&on, !why);
    return why;
}

static void stop(int wait_ms)
{
    if (atomic_exchange(&on, false))
        tap_cuda_end(wait_ms);
}

static void tick(void)
{
    if (atomic_load(&on))
        tap_cuda_tick();
}

/* HIP's state is of no use in a child. One that uses HIP itself is seen by that. */
static void forked(void)
{
    bool was_on = atomic_exchange(&on, false);

    atomic_store(&used, false);
    depth = 0;
    tap_hip_code_forked();
    if (was_on)
        tap_cuda_forked();
}

static bool describe(char *library, char *build, size_t n)
{
    library[0] = build[0] = '\0';
    if (!tap_hip_used())
        return false;
    tap_hip_library(library, n);
    return true;
}

const struct tap_front tap_front_hip = {.name = "hip", .awake = set_awake, .describe = describe, .start = start, .stop = stop, .tick = tick, .forked = forked, .trouble = tap_cuda_stage_short};
