/* tap_real.c - find the function that the server would have called had the tap not stood before it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * RTLD_NEXT finds what is in the global scope, for every caller alike. A library that was opened
 * RTLD_LOCAL (a Python module, a plugin) is not there: then the answer lies in the scope of the
 * caller's own library, and may differ from caller to caller. Without memory the linker cannot be
 * asked for it, and then tap_loaded_symbol() finds it, for the server must not miss it. */
#include "recorder/tap/core/tap_real.h"

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/tap/core/tap_loaded_symbol.h"

#define OBJECTS 1024u                 /* loaded libraries that are searched */

/* Its address stands for "looked up, there is none"; it also tells which library is ours. */
static char not_found;

/* Our own functions, also those of a second copy of the tap, are no answer: they would call each
 * other for ever. */
static bool is_tap(void *fn)
{
    Dl_info info, self;
    const char *base;

    if (!fn || !dladdr(fn, &info) || !dladdr(&not_found, &self))
        return false;
    if (info.dli_fbase == self.dli_fbase)
        return true;
    base = info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
    return base && !strcmp(base, "/libtapedeck-tap.so");
}

static void *in_object(const char *path, const char *name)
{
    void *handle = dlopen(path, RTLD_NOLOAD | RTLD_LAZY), *fn;

    if (!handle)
        return NULL;
    fn = dlsym(handle, name);
    if (!fn || is_tap(fn)) {
        dlclose(handle);
        return NULL;
    }
    return fn;                        /* the handle stays open: fn must not go away under us */
}

struct objects { char *path[OBJECTS]; unsigned n; };

static int collect(struct dl_phdr_info *info, size_t size, void *to)
{
    struct objects *o = to;

    (void)size;
    if (info->dlpi_name && info->dlpi_name[0] && o->n < OBJECTS &&
        (o->path[o->n] = strdup(info->dlpi_name)))
        o->n++;
    return 0;
}

/* Last resort: any loaded object that has it. dlopen inside the iteration would deadlock, hence the
 * list. */
static void *anywhere(const char *name)
{
    struct objects *o = calloc(1, sizeof *o);
    void *fn = NULL;
    unsigned i;

    if (!o)
        return NULL;
    dl_iterate_phdr(collect, o);
    for (i = 0; i < o->n; i++) {
        if (!fn)
            fn = in_object(o->path[i], name);
        free(o->path[i]);
    }
    free(o);
    return fn;
}

static void *find_local(const char *name, const void *caller)
{
    Dl_info info;
    void *fn = NULL;

    if (dladdr(caller, &info) && info.dli_fname && info.dli_fname[0])
        fn = in_object(info.dli_fname, name);
    if (!fn)
        fn = anywhere(name);
    return fn ? fn : tap_loaded_symbol(name, caller);
}

void *tap_real_shared(struct tap_symbol *s)
{
    void *fn = atomic_load_explicit(&s->shared, memory_order_acquire);

    if (fn || atomic_load_explicit(&s->tried, memory_order_acquire))
        return fn;
    fn = dlsym(RTLD_NEXT, s->name);
    if (is_tap(fn))
        fn = NULL;
    if (fn)
        atomic_store_explicit(&s->shared, fn, memory_order_release);
    atomic_store_explicit(&s->tried, true, memory_order_release);
    return fn;
}

/* The caller's place, or the free one where it would be; TAP_CALLERS: neither. */
static unsigned place_of(struct tap_symbol *s, const void *caller)
{
    unsigned i = (unsigned)(((uintptr_t)caller >> 2) * 2654435761u) % TAP_CALLERS, tries;

    for (tries = 0; tries < TAP_CALLERS; tries++, i = (i + 1) % TAP_CALLERS) {
        const void *there = atomic_load_explicit(&s->local[i].caller, memory_order_acquire);

        if (!there || there == caller)
            return i;
    }
    return TAP_CALLERS;
}

/* Where another caller is quicker, this one is looked up once more. */
static void remember(struct tap_symbol *s, const void *caller, void *fn)
{
    unsigned i = place_of(s, caller);
    const void *none = NULL;

    if (i < TAP_CALLERS && atomic_compare_exchange_strong(&s->local[i].caller, &none, caller))
        atomic_store_explicit(&s->local[i].fn, fn ? fn : &not_found, memory_order_release);
}

void *tap_real_find(struct tap_symbol *s, const void *caller)
{
    void *fn = tap_real_shared(s);
    unsigned i;

    if (fn)
        return fn;
    i = place_of(s, caller);
    if (i < TAP_CALLERS &&
        atomic_load_explicit(&s->local[i].caller, memory_order_relaxed) == caller)
        fn = atomic_load_explicit(&s->local[i].fn, memory_order_acquire);
    if (fn)
        /* NULL: not known, or another thread is about to write it */
        return fn == &not_found ? NULL : fn;
    fn = find_local(s->name, caller);
    remember(s, caller, fn);
    return fn;
}

void *tap_real_library(const void *fn, char *path, size_t n)
{
    Dl_info info;

    if (!fn || !dladdr(fn, &info) || !info.dli_fname)
        return NULL;
    if (path)
        snprintf(path, n, "%s", info.dli_fname);
    return dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
}
