/* torch_call.c - what happens at a call of an operator: it is counted, whatever kernel runs inside.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Asleep, a call costs a load, a branch and an indirect call more than without the tap. */
#include <errno.h>

#include "recorder/tap/core/tap.h"
#include "recorder/tap/torch/tap_torch_tensor.h"
#include "recorder/tap/torch/torch_call.h"

static _Atomic bool awake = true;     /* until the tap's thread runs, calls start it */
static _Atomic bool called;

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

    if (!tensor || !tap_torch_read_shape(tensor, &t))
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

    if (s && (uint64_t)s->n_args == n_args && tap_torch_found())
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

void tap_torch_set_awake(bool on)
{
    atomic_store_explicit(&awake, on, memory_order_relaxed);
}

bool tap_torch_was_called(void)
{
    return atomic_load(&called);
}
