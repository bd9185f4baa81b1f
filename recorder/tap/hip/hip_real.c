/* hip_real.c - the real functions of libamdhip64, for thousands of callers.
 * SPDX-License-Identifier: Apache-2.0
 *
 * hipcc gives each kernel a stub that calls hipLaunchKernel, and a Python server has the runtime in
 * a local scope, where the answer depends on the caller (tap_real.c). So answers are kept by call
 * site, in one table for all functions. A full table costs time, no more. */
#include "recorder/tap/hip/hip_real.h"

#define SITES 16384u                  /* a power of two */

#define TRIES 16u

/* key: the call site's address and the function's number, for a library may be loaded where another
 * was. 0: free. */
static struct { _Atomic uint64_t key; _Atomic(void *) fn; } site[SITES];

static unsigned first_place(uint64_t key)
{
    return (unsigned)(key * 0x9e3779b97f4a7c15u >> 50) % SITES;
}

static void *look(uint64_t key)
{
    unsigned i = first_place(key), tries;

    for (tries = 0; tries < TRIES; tries++, i = (i + 1) % SITES) {
        uint64_t there = atomic_load_explicit(&site[i].key, memory_order_acquire);

        if (there == key)
            /* NULL: another thread is about to write it. */
            return atomic_load_explicit(&site[i].fn, memory_order_acquire);
        if (!there)
            return NULL;
    }
    return NULL;
}

static void remember(uint64_t key, void *fn)
{
    unsigned i = first_place(key), tries;

    for (tries = 0; tries < TRIES; tries++, i = (i + 1) % SITES) {
        uint64_t free_key = 0;

        if (atomic_compare_exchange_strong(&site[i].key, &free_key, key))
            atomic_store_explicit(&site[i].fn, fn, memory_order_release);
        else if (free_key != key)
            continue;
        return;
    }
}

void *tap_hip_real(struct tap_symbol *s, unsigned which, const void *caller)
{
    uint64_t key = (uint64_t)(uintptr_t)caller << 5 | which;
    void *fn = tap_real_shared(s);

    if (!fn)
        fn = look(key);
    if (fn)
        return fn;
    fn = tap_real_find(s, caller);
    if (fn)
        remember(key, fn);
    return fn;
}
