/* tap_real.h - find the function that the server would have called had the tap not stood before it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CORE_TAP_REAL_H
#define TD_RECORDER_TAP_CORE_TAP_REAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#pragma GCC visibility push(hidden)

#define TAP_CALLERS 64u            /* call sites remembered; more of them are looked up each time */

/* static struct tap_symbol s = {.name = "..."}; one for each function that a front stands
 * before. */
struct tap_symbol {
    const char *name;
    _Atomic(void *) shared;        /* found by RTLD_NEXT */
    _Atomic bool tried;            /* RTLD_NEXT was asked */
    struct { _Atomic(const void *) caller; _Atomic(void *) fn; } local[TAP_CALLERS];
};

/* The function that `caller` (__builtin_return_address(0)) would reach without the tap; NULL: none.
 * Any thread. The first time for a symbol and caller it asks the dynamic linker, which takes locks,
 * allocates and may change errno; after that it only loads. */
void *tap_real_find(struct tap_symbol *s, const void *caller);
/* The function that all callers reach, or NULL: it depends on the caller. The same costs. */
void *tap_real_shared(struct tap_symbol *s);
/* A handle of the library that defines fn (RTLD_NOLOAD: for dlsym, and dlclose after it); its path
 * in path[n] unless path is NULL. NULL: not found. Asks the dynamic linker each time. */
void *tap_real_library(const void *fn, char *path, size_t n);

#pragma GCC visibility pop
#endif
