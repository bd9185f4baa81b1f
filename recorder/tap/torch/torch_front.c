/* torch_front.c - the front for operators that a library registers by torch's stable C ABI: they
 * are counted by name, whatever kernel runs inside.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Asleep, a call costs a load, a branch and an indirect call more than without the tap. */
#include <dlfcn.h>
#include <errno.h>

#include "recorder/tap/core/tap.h"
#include "recorder/tap/torch/tap_torch_tensor.h"
#include "recorder/tap/torch/torch_library.h"
#include "recorder/tap/torch/torch_trampolines.h"

#define REPORT_NS 1000000000LL        /* counts go over so often */

static _Atomic bool awake = true;     /* until the tap's thread runs, calls start it */
static _Atomic bool called;
static int64_t reported_ns;           /* the tap's thread: when counts went over last */

/* ---- counting -------------------------------------------------------------------------------- */

/* The handle of an argument that is a tensor; NULL: it is none, or None. */
static td_torch_tensor tensor_of(const struct tap_torch_arg *arg, td_torch_value value)
{
    if (arg->type != TAP_TORCH_TENSOR || arg->list || !value)
        return NULL;
    if (arg->optional)
        value = *(const td_torch_value *)(uintptr_t)value;
    return (td_torch_tensor)(uintptr_t)value;
}

static uint64_t bytes_of(td_torch_tensor tensor)
{
    struct tap_torch_tensor t;
    uint64_t bytes;
    int i;

    if (!tensor || !tap_torch_read_any(tensor, &t))
        return 0;
    bytes = tap_torch_dtype_bytes(t.dtype);
    for (i = 0; i < t.ndim; i++)
        bytes *= (uint64_t)t.sizes[i];
    return bytes;
}

/* Count a call, and the bytes of its tensors. The arguments are still on the stack. */
static void count(struct tap_torch_operator *o, const td_torch_value *stack, uint64_t n_args)
{
    const struct tap_torch_schema *s = atomic_load_explicit(&o->schema, memory_order_acquire);
    uint64_t bytes = 0;
    int i;

    if (s && (uint64_t)s->n_args == n_args && tap_torch_ready(tap_torch_library_function()))
        for (i = 0; i < s->n_args; i++)
            bytes += bytes_of(tensor_of(&s->arg[i], stack[i]));
    atomic_fetch_add_explicit(&o->calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&o->bytes, bytes, memory_order_relaxed);
}

void tap_torch_call(unsigned place, td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    struct tap_torch_operator *o = tap_torch_operator_at(place);

    if (!TAP_LIKELY(!atomic_load_explicit(&awake, memory_order_relaxed))) {
        int e = errno;

        atomic_store_explicit(&called, true, memory_order_relaxed);
        tap_start_if_cold();
        if (tap_armed())
            count(o, stack, n_args);
        errno = e;
    }
    o->real(stack, n_args, n_results);
}

/* ---- the tap's thread ------------------------------------------------------------------------ */

/* Report what was called since the last time. What finds no room goes over the next time. */
static void report(void)
{
    unsigned i, n = tap_torch_operator_count();

    for (i = 0; i < n; i++) {
        struct tap_torch_operator *o = tap_torch_operator_at(i);
        uint64_t calls = atomic_load(&o->calls), bytes = atomic_load(&o->bytes);

        if (calls == o->sent_calls ||
            !tap_send_operator(o->name, o->key, calls - o->sent_calls, bytes - o->sent_bytes))
            continue;
        o->sent_calls = calls;
        o->sent_bytes = bytes;
    }
    reported_ns = tap_now();
}

static const char *start(void)
{
    unsigned i, n = tap_torch_operator_count();

    for (i = 0; i < n; i++) {          /* calls of an earlier arm that did not go over */
        struct tap_torch_operator *o = tap_torch_operator_at(i);

        o->sent_calls = atomic_load(&o->calls);
        o->sent_bytes = atomic_load(&o->bytes);
    }
    reported_ns = tap_now();
    return tap_torch_refused();
}

static void tick(void)
{
    if (tap_now() - reported_ns > REPORT_NS)
        report();
}

static void stop(int wait_ms)
{
    (void)wait_ms;
    report();
}

static void set_awake(bool on)
{
    atomic_store_explicit(&awake, on, memory_order_relaxed);
}

static bool describe(char *library, char *build, size_t n)
{
    void *handle;

    library[0] = build[0] = '\0';
    if (!atomic_load(&called) && !tap_torch_refused())
        return false;
    handle = tap_real_library(tap_torch_library_function(), library, n);
    if (handle)
        dlclose(handle);
    return true;
}

TAP_FRONT(torch) = {.name = "torch",
                    .set_awake = set_awake,
                    .describe = describe,
                    .start = start,
                    .tick = tick,
                    .stop = stop};
