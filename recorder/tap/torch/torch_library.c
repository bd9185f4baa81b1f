/* torch_library.c - the tap before the functions by which a library registers its operators.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: torch 2.11, torch/csrc/inductor/aoti_torch/c/shim.h and torch/csrc/stable/c/shim.h. A
 * library of operators (vLLM's _C_stable_libtorch.abi3.so) calls them while it is loaded:
 *     aoti_torch_library_init_fragment("_C", file, line, &library)
 *     aoti_torch_library_def(library, "machete_mm(Tensor A, ...) -> Tensor")
 *     aoti_torch_library_init_impl("_C", "CUDA", file, line, &library)
 *     torch_library_impl(library, "machete_mm", function, version)
 * torch gets a trampoline in place of the function, and everything else as it came. Where anything
 * is not as expected (a torch of another major version, a full table) it gets the function. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "recorder/tap/core/tap_front.h"
#include "recorder/tap/core/tap.h"
#include "recorder/tap/core/tap_spent.h"
#include "recorder/tap/torch/tap_torch_tensor.h"
#include "recorder/tap/torch/torch_library.h"
#include "recorder/tap/torch/torch_trampolines.h"

#define FAILURE 1                     /* AOTI_TORCH_FAILURE */
#define LIBRARIES 256u                /* open at once; each of vLLM's registers three to five */
#define KNOWN_MAJOR 2                 /* of torch's version */

TAP_EXPORT td_torch_init aoti_torch_library_init_def;
TAP_EXPORT td_torch_init aoti_torch_library_init_fragment;
TAP_EXPORT td_torch_init_impl aoti_torch_library_init_impl;
TAP_EXPORT td_torch_def aoti_torch_library_def;
TAP_EXPORT td_torch_def_tags torch_library_def_with_tags;
TAP_EXPORT td_torch_impl aoti_torch_library_impl;
TAP_EXPORT td_torch_impl_version torch_library_impl;
TAP_EXPORT td_torch_delete aoti_torch_delete_library_object;

static struct tap_symbol init_def = {.name = "aoti_torch_library_init_def"},
                         init_fragment = {.name = "aoti_torch_library_init_fragment"},
                         init_impl = {.name = "aoti_torch_library_init_impl"},
                         def = {.name = "aoti_torch_library_def"},
                         def_with_tags = {.name = "torch_library_def_with_tags"},
                         impl = {.name = "aoti_torch_library_impl"},
                         impl_version = {.name = "torch_library_impl"},
                         delete_library = {.name = "aoti_torch_delete_library_object"};

/* ---- open libraries -------------------------------------------------------------------------- */

struct library {
    td_torch_library handle;          /* NULL: this place is free */
    char ns[32], key[TAP_OPERATOR_KEY];  /* "_C", "CUDA"; "": it defines operators */
};
static struct library libraries[LIBRARIES];
static _Atomic(const void *) any_real; /* a function of torch's library */
static char refused[TAP_TEXT];        /* why operators are not seen; "": they are */

/* With the lock held. NULL: none has this handle. */
static struct library *library_of(td_torch_library handle)
{
    unsigned i;

    for (i = 0; i < LIBRARIES; i++)
        if (libraries[i].handle == handle)
            return &libraries[i];
    return NULL;
}

static void open_library(td_torch_library handle, const char *ns, const char *key)
{
    struct library *l;

    if (!handle || !ns || strlen(ns) >= sizeof l->ns || (key && strlen(key) >= sizeof l->key))
        return;
    tap_torch_lock();
    l = library_of(handle);
    l = l ? l : library_of(NULL);
    if (l) {
        l->handle = handle;
        snprintf(l->ns, sizeof l->ns, "%s", ns);
        snprintf(l->key, sizeof l->key, "%s", key ? key : "");
    }
    tap_torch_unlock();
}

/* A copy of what is known of a library. False: nothing. */
static bool find_library(td_torch_library handle, struct library *out)
{
    const struct library *l = NULL;

    tap_torch_lock();
    l = handle ? library_of(handle) : NULL;
    if (l)
        *out = *l;
    tap_torch_unlock();
    return l != NULL;
}

static void close_library(td_torch_library handle)
{
    struct library *l;

    tap_torch_lock();
    l = handle ? library_of(handle) : NULL;
    if (l)
        l->handle = NULL;
    tap_torch_unlock();
}

/* ---- torch's version ------------------------------------------------------------------------- */

/* How values lie on the stack is promised for a major version. Returns NULL: it is known; else a
 * sentence for the user, in text[n]. */
static const char *check_version(const void *real, char *text, size_t n)
{
    void *library = tap_real_library(real, NULL, 0);
    td_torch_version *version =
        library ? (td_torch_version *)dlsym(library, "aoti_torch_abi_version") : NULL;
    unsigned major = version ? (unsigned)(version() >> 56) : 0,
             minor = version ? (unsigned)(version() >> 48 & 0xff) : 0;

    if (library)
        dlclose(library);
    else
        tap_front_lacks_memory();
    if (major == KNOWN_MAJOR)
        return NULL;
    snprintf(text, n, "operators are not seen: this tap knows the C interface of torch %d, and the ",
             KNOWN_MAJOR);
    if (version)
        snprintf(text + strlen(text), n - strlen(text), "server's is %u.%u", major, minor);
    else
        snprintf(text + strlen(text), n - strlen(text), "server's does not tell its version");
    return text;
}

/* Look at torch's version, once. Before the lock: the dynamic linker may call us back. */
static void look_at_torch(const void *real)
{
    char text[TAP_TEXT];
    const char *why;

    if (atomic_load(&any_real))
        return;
    why = check_version(real, text, sizeof text);
    tap_torch_ready(real);            /* for the calls: here the linker may be asked */
    tap_torch_lock();
    if (!atomic_load(&any_real)) {
        snprintf(refused, sizeof refused, "%s", why ? why : "");
        atomic_store(&any_real, real);
    }
    tap_torch_unlock();
    if (why)
        tap_start_if_cold();          /* no call will come by: the tap is there to say why */
}

/* The function that torch has under that name; NULL: none. */
static void *find(struct tap_symbol *symbol, const void *caller)
{
    int e = errno;
    void *real = tap_real_find(symbol, caller);

    if (real)
        look_at_torch(real);
    errno = e;
    return real;
}

const char *tap_torch_refused(void)
{
    return refused[0] ? refused : NULL;
}

const void *tap_torch_library_function(void)
{
    return atomic_load(&any_real);
}

/* ---- in the place of torch's functions ------------------------------------------------------- */

static int32_t open_definitions(td_torch_init *real, const char *ns, const char *file, uint32_t line,
                                td_torch_library *library)
{
    int32_t rc = real ? real(ns, file, line, library) : FAILURE;

    if (!rc)
        open_library(*library, ns, NULL);
    return rc;
}

int32_t aoti_torch_library_init_def(const char *ns, const char *file, uint32_t line,
                                    td_torch_library *library)
{
    return open_definitions((td_torch_init *)find(&init_def, __builtin_return_address(0)), ns, file,
                            line, library);
}

int32_t aoti_torch_library_init_fragment(const char *ns, const char *file, uint32_t line,
                                         td_torch_library *library)
{
    return open_definitions((td_torch_init *)find(&init_fragment, __builtin_return_address(0)), ns,
                            file, line, library);
}

int32_t aoti_torch_library_init_impl(const char *ns, const char *key, const char *file,
                                     uint32_t line, td_torch_library *library)
{
    td_torch_init_impl *real = (td_torch_init_impl *)find(&init_impl, __builtin_return_address(0));
    int32_t rc = real ? real(ns, key, file, line, library) : FAILURE;

    if (!rc)
        open_library(*library, ns, key ? key : "");
    return rc;
}

/* Remember a definition that torch took. */
static void define(td_torch_library library, const char *schema)
{
    const int64_t begun = tap_spent_begin();
    struct library l;

    if (schema && find_library(library, &l))
        tap_torch_define(l.ns, schema);
    tap_spent_end(begun);
}

int32_t aoti_torch_library_def(td_torch_library library, const char *schema)
{
    td_torch_def *real = (td_torch_def *)find(&def, __builtin_return_address(0));
    int32_t rc = real ? real(library, schema) : FAILURE;

    if (!rc)
        define(library, schema);
    return rc;
}

int32_t torch_library_def_with_tags(td_torch_library library, const char *schema,
                                    const int32_t *tags, int32_t n_tags)
{
    td_torch_def_tags *real = (td_torch_def_tags *)find(&def_with_tags, __builtin_return_address(0));
    int32_t rc = real ? real(library, schema, tags, n_tags) : FAILURE;

    if (!rc)
        define(library, schema);
    return rc;
}

/* Implementations for these keys compute, on a device. Those for others answer questions of the
 * server's front process (CompositeExplicitAutograd), trace shapes (Meta) or gradients. */
static bool is_device_key(const char *key)
{
    static const char *const devices[] = {"CPU", "CUDA", "HIP", "XPU", "PrivateUse1"};
    size_t i;

    for (i = 0; i < sizeof devices / sizeof *devices; i++)
        if (!strcmp(key, devices[i]))
            return true;
    return false;
}

/* What torch is to call: a trampoline, or the function itself. A trampoline comes by here where one
 * of torch's functions calls another one. */
static td_torch_boxed *implement(td_torch_library library, const char *name, td_torch_boxed *fn)
{
    struct library l;
    int place;

    if (!name || !fn || refused[0] || tap_torch_is_trampoline(fn) || !find_library(library, &l) || !is_device_key(l.key))
        return fn;
    place = tap_torch_implement(l.ns, l.key, name, fn);
    return place < 0 ? fn : tap_torch_trampoline((unsigned)place);
}

static td_torch_boxed *stand_before(td_torch_library library, const char *name, td_torch_boxed *fn)
{
    const int64_t begun = tap_spent_begin();
    td_torch_boxed *called = implement(library, name, fn);

    tap_spent_end(begun);
    return called;
}

int32_t aoti_torch_library_impl(td_torch_library library, const char *name, td_torch_boxed *fn)
{
    td_torch_impl *real = (td_torch_impl *)find(&impl, __builtin_return_address(0));

    return real ? real(library, name, stand_before(library, name, fn)) : FAILURE;
}

int32_t torch_library_impl(td_torch_library library, const char *name, td_torch_boxed *fn,
                           uint64_t version)
{
    td_torch_impl_version *real =
        (td_torch_impl_version *)find(&impl_version, __builtin_return_address(0));

    return real ? real(library, name, stand_before(library, name, fn), version) : FAILURE;
}

int32_t aoti_torch_delete_library_object(td_torch_library library)
{
    td_torch_delete *real = (td_torch_delete *)find(&delete_library, __builtin_return_address(0));

    close_library(library);           /* first: torch may give the address away again */
    return real ? real(library) : FAILURE;
}
