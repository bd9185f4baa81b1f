/* gpu_recognise.c - the start of the pipeline: a launch is recognised by its kernel's name.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/gpu/gpu_gate.h"
#include "recorder/tap/gpu/gpu_inner.h"
#include "recorder/tap/gpu/gpu_recognise.h"
#include "recorder/tap/gpu/gpu_threads.h"

uint64_t tap_gpu_recognise(const struct tap_gpu_launch *l, const char *symbol)
{
    struct tap_gpu_kernel *k = tap_gpu_kernel_find(l->function, symbol);

    if (k) /* the sender counts them in the ledger, all of a kernel at once */
        atomic_fetch_add_explicit(tap_gpu_thread.in_library_call ? &k->in_library_call : &k->n, 1,
                                  memory_order_relaxed);
    else
        tap_count(TAP_LAUNCHES, 1, 0);
    if (k && k->adapter && !tap_gpu_thread.in_library_call)
        return tap_gpu_gate_enter(l, k);
    if (k && k->adapter && tap_gpu_thread.inner)
        tap_gpu_inner_note(tap_gpu_thread.inner, tap_gpu_thread.inner_of, l, k);
    tap_gpu_gate_note_other(l);
    return 0;
}
