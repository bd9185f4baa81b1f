/* hip_use.c - whether this process uses HIP, on which device, and whether calls of HIP must come to
 * the tap.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/core/tap.h"
#include "recorder/tap/hip/hip_use.h"

static _Atomic bool awake = true, used;
/* The only device that hipSetDevice named; -1: none yet, -2: several. */
static _Atomic int device = -1;

bool tap_hip_awake(void)
{
    return atomic_load_explicit(&awake, memory_order_relaxed);
}

bool tap_hip_used(void)
{
    return atomic_load_explicit(&used, memory_order_relaxed);
}

void tap_hip_note_use(void)
{
    if (!tap_hip_used()) {
        atomic_store_explicit(&tap_gpu_launches_seen, true, memory_order_relaxed);
        atomic_store_explicit(&used, true, memory_order_relaxed);
    }
    if (tap_hip_awake())
        tap_start_if_cold();
}

void tap_hip_note_device(int ordinal)
{
    int none = -1;

    if (!atomic_compare_exchange_strong(&device, &none, ordinal) && none != ordinal)
        atomic_store(&device, -2);
}

void tap_hip_set_awake(bool yes)
{
    atomic_store(&awake, yes);
}

int tap_hip_only_device(void)
{
    int d = atomic_load(&device);

    return d == -2 ? -1 : d < 0 ? 0 : d; /* a server that names no device uses the first */
}

void tap_hip_use_forget(void)
{
    atomic_store(&used, false);
}
