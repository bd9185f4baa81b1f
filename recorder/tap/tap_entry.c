/* tap_entry.c - the two functions that stand before the real ones.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Asleep, a call costs one load, one predicted branch and one jump. */
#include <errno.h>

#include "recorder/tap/tap_core.h"

_Atomic(tap_gemm_fn *) tap_asleep_gemm;
_Atomic(tap_step_fn *) tap_asleep_step;

/* Cold, armed, or a real function that depends on the caller. */
static __attribute__((noinline)) int awake_gemm(const struct td_gptq_gemm_args *args, const void *caller)
{
    int e = errno;
    tap_gemm_fn *real = tap_real_gemm(caller);

    tap_serve_start();
    errno = e;
    if (!real)
        return TD_KERNEL_EUNSUPPORTED;
    if (!atomic_load_explicit(&tap_generation, memory_order_acquire))
        return real(args);
    return tap_take_gemm(args, real);
}

static __attribute__((noinline)) void awake_step(const struct td_step_args *args, const void *caller)
{
    int e = errno;
    tap_step_fn *real = tap_real_step(caller);

    tap_serve_start();
    if (atomic_load_explicit(&tap_generation, memory_order_acquire))
        tap_take_step(args);
    errno = e;
    if (real)
        real(args);
}

TAP_EXPORT int td_gptq_gemm(const struct td_gptq_gemm_args *args)
{
    tap_gemm_fn *real = atomic_load_explicit(&tap_asleep_gemm, memory_order_relaxed);

    if (TAP_LIKELY(real))
        return real(args);
    return awake_gemm(args, __builtin_return_address(0));
}

TAP_EXPORT void td_step(const struct td_step_args *args)
{
    tap_step_fn *real = atomic_load_explicit(&tap_asleep_step, memory_order_relaxed);

    tap_take_note_step();
    if (TAP_LIKELY(real))
        real(args);
    else
        awake_step(args, __builtin_return_address(0));
}
