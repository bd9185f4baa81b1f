/* tap_real.c - find the function that the server would have called had the tap not stood before it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * RTLD_NEXT finds what is in the global scope, for every caller alike. A library that was opened RTLD_LOCAL (a Python module,
 * a plugin) is not there: then the answer lies in the scope of the caller's own library, and may differ from caller to caller. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/tap/tap_core.h"

#define CALLERS 64u   /* call sites remembered; more of them are looked up each time */
#define OBJECTS 1024u

struct lookup {
    const char *name;
    _Atomic(void *) shared;           /* found by RTLD_NEXT */
    _Atomic bool tried;               /* RTLD_NEXT was asked */
    struct { _Atomic(const void *) caller; _Atomic(void *) fn; } local[CALLERS];
};
static struct lookup gemm = {.name = "td_gptq_gemm"}, step = {.name = "td_step"};
static _Atomic(void *) any_gemm;      /* the last one found, for tap_real_describe */

/* Our own functions, also those of a second copy of the tap, are no answer: they would call each other for ever. */
static bool is_tap(void *fn)
{
    Dl_info info, self;
    const char *base;

    if (!fn || !dladdr(fn, &info) || !dladdr((void *)&gemm, &self))
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
    if (info->dlpi_name && info->dlpi_name[0] && o->n < OBJECTS && (o->path[o->n] = strdup(info->dlpi_name)))
        o->n++;
    return 0;
}

/* Last resort: any loaded object that has it. dlopen inside the iteration would deadlock, hence the list. */
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
    return fn ? fn : anywhere(name);
}

static void *find_shared(struct lookup *l)
{
    void *fn = atomic_load_explicit(&l->shared, memory_order_acquire);

    if (fn || atomic_load_explicit(&l->tried, memory_order_acquire))
        return fn;
    fn = dlsym(RTLD_NEXT, l->name);
    if (is_tap(fn))
        fn = NULL;
    if (fn)
        atomic_store_explicit(&l->shared, fn, memory_order_release);
    atomic_store_explicit(&l->tried, true, memory_order_release);
    return fn;
}

static char nothing;                  /* its address: looked for, and not there */

static void *find(struct lookup *l, const void *caller)
{
    unsigned i = (unsigned)(((uintptr_t)caller >> 2) * 2654435761u) % CALLERS;
    const void *none = NULL;
    void *fn = find_shared(l);

    if (fn)
        return fn;
    if (atomic_load_explicit(&l->local[i].caller, memory_order_acquire) == caller) {
        fn = atomic_load_explicit(&l->local[i].fn, memory_order_acquire);
        if (fn)
            return fn == &nothing ? NULL : fn; /* NULL: another thread is about to write it */
    }
    fn = find_local(l->name, caller);
    if (atomic_compare_exchange_strong(&l->local[i].caller, &none, caller))
        atomic_store_explicit(&l->local[i].fn, fn ? fn : &nothing, memory_order_release);
    return fn;
}

tap_gemm_fn *tap_real_gemm(const void *caller)
{
    void *fn = find(&gemm, caller);

    if (fn && !atomic_load_explicit(&any_gemm, memory_order_relaxed))
        atomic_store_explicit(&any_gemm, fn, memory_order_release);
    return (tap_gemm_fn *)fn;
}

tap_step_fn *tap_real_step(const void *caller)
{
    return (tap_step_fn *)find(&step, caller);
}

tap_gemm_fn *tap_real_shared_gemm(void)
{
    void *fn = find_shared(&gemm);

    if (fn && !atomic_load_explicit(&any_gemm, memory_order_relaxed))
        atomic_store_explicit(&any_gemm, fn, memory_order_release);
    return (tap_gemm_fn *)fn;
}

tap_step_fn *tap_real_shared_step(void)
{
    return (tap_step_fn *)find_shared(&step);
}

void tap_real_describe(char *library, char *build, size_t n)
{
    void *fn = atomic_load_explicit(&any_gemm, memory_order_acquire);
    const char *(*describe)(void);
    Dl_info info;
    void *handle;

    library[0] = build[0] = '\0';
    if (!fn || !dladdr(fn, &info) || !info.dli_fname)
        return;
    snprintf(library, n, "%s", info.dli_fname);
    handle = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
    describe = (const char *(*)(void))dlsym(handle ? handle : RTLD_DEFAULT, "td_kernels_build");
    if (describe) {
        const char *text = describe();

        snprintf(build, n, "%s", text ? text : "");
    }
    if (handle)
        dlclose(handle);
}
