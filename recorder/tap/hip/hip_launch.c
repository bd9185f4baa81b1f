/* hip_launch.c - around a call of HIP that launches a kernel.
 * SPDX-License-Identifier: Apache-2.0
 *
 * hipGetLastError is part of what a server sees. Up to ROCm 6 every call overwrites a thread's last
 * error, a success too; from 7 on only errors do (HIP_RETURN in clr's hip_internal.hpp). So nothing
 * is called after a launch that failed, and an error of the tap's own calls is taken back. */
#include <errno.h>

#include "recorder/tap/gpu/gpu_gate.h"
#include "recorder/tap/gpu/gpu_recognise.h"
#include "recorder/tap/gpu/gpu_threads.h"
#include "recorder/tap/hip/hip_launch.h"
#include "recorder/tap/hip/hip_load.h"
#include "recorder/tap/hip/hip_use.h"

static _Atomic bool watching;         /* armed, and HIP's launches are to be looked at */
static _Atomic(const void *) any_real;
/* Launches within launches. */
static __thread __attribute__((tls_model("initial-exec"))) unsigned depth;

/* ---- around a launch ------------------------------------------------------------------------- */

/* Parameters in the packed form: `extra` holds pairs of a word and a value; two of them give the
 * block's address and size. */
static void read_extra(struct tap_gpu_launch *l, void *const *extra)
{
    int i;

    for (i = 0; i < 8 && extra && (uintptr_t)extra[i] != TD_HIP_PARAM_END; i += 2) {
        if ((uintptr_t)extra[i] == TD_HIP_PARAM_BUFFER_POINTER)
            l->packed = extra[i + 1];
        else if ((uintptr_t)extra[i] == TD_HIP_PARAM_BUFFER_SIZE && extra[i + 1])
            l->packed_bytes = *(const size_t *)extra[i + 1];
    }
}

static void read_call(struct tap_hip_call *c)
{
    struct tap_gpu_launch *l = &c->launch;
    int i;

    *l = (struct tap_gpu_launch){.function = (void *)(uintptr_t)(c->stub ? c->stub : c->function),
                                 .shared_bytes = (unsigned)c->shared_bytes,
                                 .stream = c->per_thread && !c->stream ? TD_HIP_STREAM_PER_THREAD
                                                                       : c->stream,
                                 .params = c->params};
    for (i = 0; i < 3; i++) {
        l->block[i] = c->block[i];
        l->grid[i] = c->items && c->block[i]
                         ? c->grid[i] / c->block[i] + (c->grid[i] % c->block[i] != 0)
                         : c->grid[i];
    }
    l->context = tap_hip_context_of(l->stream);
    if (!l->params)
        read_extra(l, c->extra);
}

static const char *name_of(const struct tap_hip_call *c)
{
    if (c->stub)
        return tap_hip.stub_name(c->stub, tap_hip_is_plain(c->stream) ? c->stream : NULL);
    return c->function ? tap_hip.function_name((void *)(uintptr_t)c->function) : NULL;
}

void tap_hip_note_launch(const void *real)
{
    if (!atomic_load_explicit(&any_real, memory_order_relaxed))
        atomic_store_explicit(&any_real, real, memory_order_relaxed);
    tap_hip_note_use();
}

bool tap_hip_come_in(void)
{
    if (!tap_armed() || !atomic_load(&watching) || !tap_gpu_come_in())
        return false;
    if (atomic_load(&watching))
        return true;
    tap_gpu_go_out();
    return false;
}

void tap_hip_launch_begin(struct tap_hip_call *c, const void *real)
{
    int e = errno, before;

    if (depth++)
        return;
    tap_hip_note_launch(real);
    if (tap_hip_come_in()) {
        before = tap_hip.peek_error();
        read_call(c);
        c->token = tap_gpu_recognise(&c->launch, name_of(c));
        tap_hip_restore_error(before);
        tap_gpu_go_out();
    }
    errno = e;
}

int tap_hip_launch_end(struct tap_hip_call *c, int rc)
{
    int e = errno, before;

    if (--depth || !c->token)
        return rc;
    if (tap_hip_come_in()) {
        before = rc ? -1 : tap_hip.peek_error();
        /* This calls nothing of HIP when the launch failed. */
        tap_gpu_gate_leave(c->token, &c->launch, rc == 0);
        if (!rc)
            tap_hip_restore_error(before);
        tap_gpu_go_out();
    }
    errno = e;
    return rc;
}

void tap_hip_note_graph(const void *real)
{
    int e = errno;

    if (!depth) {
        tap_hip_note_launch(real);
        if (tap_hip_come_in()) {
            tap_count(TAP_GRAPHS, 1, 0);
            tap_gpu_go_out();
        }
    }
    errno = e;
}

/* ---- the tap's thread ------------------------------------------------------------------------ */

const void *tap_hip_any_real(void)
{
    return atomic_load(&any_real);
}

bool tap_hip_watch_launches(bool on)
{
    return atomic_exchange(&watching, on);
}

bool tap_hip_is_watching(void)
{
    return atomic_load(&watching);
}

void tap_hip_launch_forget(void)
{
    depth = 0;
}
