/* lib_fake_torch.c - libtorch_cpu.so for tests of the tap: the C functions that register operators
 * and read tensors, and a dispatcher that calls what was registered.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source of the signatures: kernels/abi/torch_abi.h. Where torch throws or prints, this returns an
 * error. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helpers/fake_torch.h"

#define OPERATORS 2000

uint64_t fake_torch_version = (uint64_t)2 << 56 | (uint64_t)11 << 48;
int32_t fake_torch_refuses;
int64_t fake_torch_asked_for_data;
void *fake_torch_stream;

/* ---- tensors --------------------------------------------------------------------------------- */

td_torch_get_dim aoti_torch_get_dim;
td_torch_get_lengths aoti_torch_get_sizes, aoti_torch_get_strides;
td_torch_get_enum aoti_torch_get_dtype, aoti_torch_get_device_type, aoti_torch_get_device_index;
td_torch_get_stream aoti_torch_get_current_cuda_stream;
td_torch_get_data torch_get_const_data_ptr;
td_torch_get_text torch_string_c_str;
td_torch_version aoti_torch_abi_version;

static struct fake_torch_tensor *at(td_torch_tensor t)
{
    return (struct fake_torch_tensor *)(uintptr_t)t;
}

int32_t aoti_torch_get_dim(td_torch_tensor t, int64_t *ndim) { return *ndim = at(t)->ndim, 0; }
int32_t aoti_torch_get_sizes(td_torch_tensor t, int64_t **sizes) { return *sizes = at(t)->sizes, 0; }
int32_t aoti_torch_get_strides(td_torch_tensor t, int64_t **s) { return *s = at(t)->strides, 0; }
int32_t aoti_torch_get_dtype(td_torch_tensor t, int32_t *dtype) { return *dtype = at(t)->dtype, 0; }
int32_t aoti_torch_get_device_type(td_torch_tensor t, int32_t *d) { return *d = at(t)->device, 0; }
int32_t aoti_torch_get_device_index(td_torch_tensor t, int32_t *i) { return (void)t, *i = 0, 0; }
int32_t aoti_torch_get_current_cuda_stream(int32_t device, void **stream)
{
    return (void)device, *stream = fake_torch_stream, 0;
}
int32_t torch_get_const_data_ptr(td_torch_tensor t, void **data)
{
    fake_torch_asked_for_data++;
    return *data = at(t)->data, at(t)->no_storage;
}

int32_t torch_string_c_str(td_torch_string text, const char **s)
{
    return *s = text, 0;               /* a text is its own handle here */
}

uint64_t aoti_torch_abi_version(void)
{
    const char *version = getenv("TD_FAKE_TORCH"); /* "3.1" */
    unsigned major, minor;

    if (version && sscanf(version, "%u.%u", &major, &minor) == 2)
        return (uint64_t)major << 56 | (uint64_t)minor << 48;
    return fake_torch_version;
}

/* ---- libraries and operators ----------------------------------------------------------------- */

struct library { char ns[64], key[64]; };
static struct { char name[160], key[64]; td_torch_boxed *fn; } operators[OPERATORS];
static atomic_int n_operators; /* servers register from several threads, and fork meanwhile: no lock */

td_torch_init aoti_torch_library_init_def, aoti_torch_library_init_fragment;
td_torch_init_impl aoti_torch_library_init_impl;
td_torch_def aoti_torch_library_def;
td_torch_impl aoti_torch_library_impl;
td_torch_impl_version torch_library_impl;
td_torch_delete aoti_torch_delete_library_object;

int32_t aoti_torch_library_init_impl(const char *ns, const char *key, const char *file,
                                     uint32_t line, td_torch_library *library)
{
    struct library *l = fake_torch_refuses ? NULL : calloc(1, sizeof *l);

    (void)file, (void)line;
    if (!l)
        return 1;
    snprintf(l->ns, sizeof l->ns, "%s", ns);
    snprintf(l->key, sizeof l->key, "%s", key);
    *library = l;
    return 0;
}

int32_t aoti_torch_library_init_def(const char *ns, const char *file, uint32_t line,
                                    td_torch_library *library)
{
    return aoti_torch_library_init_impl(ns, "", file, line, library);
}

int32_t aoti_torch_library_init_fragment(const char *ns, const char *file, uint32_t line,
                                         td_torch_library *library)
{
    return aoti_torch_library_init_impl(ns, "", file, line, library);
}

int32_t aoti_torch_library_def(td_torch_library library, const char *schema)
{
    return fake_torch_refuses || !library || !schema;
}

int32_t aoti_torch_library_impl(td_torch_library library, const char *name, td_torch_boxed *fn)
{
    const struct library *l = library;
    int i;

    if (fake_torch_refuses)
        return 1;
    i = atomic_fetch_add(&n_operators, 1);
    if (i >= OPERATORS)
        return atomic_fetch_sub(&n_operators, 1), 1;
    snprintf(operators[i].name, sizeof operators->name, "%s::%s", l->ns, name);
    snprintf(operators[i].key, sizeof operators->key, "%s", l->key);
    operators[i].fn = fn;
    return 0;
}

int32_t torch_library_impl(td_torch_library library, const char *name, td_torch_boxed *fn,
                           uint64_t version)
{
    (void)version;
    return aoti_torch_library_impl(library, name, fn);
}

int32_t aoti_torch_delete_library_object(td_torch_library library)
{
    free(library);
    return 0;
}

/* The one registered last counts, as in torch. */
int32_t fake_torch_call(const char *name, const char *key, td_torch_value *stack, uint64_t n_args,
                        uint64_t n_results)
{
    int i = n_operators;

    while (i-- > 0)
        if (!strcmp(operators[i].name, name) && !strcmp(operators[i].key, key)) {
            operators[i].fn(stack, n_args, n_results);
            return 0;
        }
    return 1;
}
