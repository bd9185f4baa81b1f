/* ggml_repacked.c - weights in a layout into which ggml repacks them: the build's own buffer type does it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/providers/ggml_repacked.h"

#include <string.h>

#include "common/memory.h"

static bool has_functions(const struct td_ggml_build *b)
{
    return b->backend_cpu_reg && b->backend_reg_dev_get && b->backend_reg_get_proc_address && b->backend_buft_name &&
           b->backend_buft_get_alloc_size && b->backend_buft_alloc_buffer && b->backend_buffer_get_base &&
           b->backend_tensor_alloc && b->backend_tensor_set && b->backend_buffer_free;
}

/* The CPU backend's buffer type of that name, as llama.cpp finds it. NULL: there is none. */
static struct td_ggml_buffer_type *type_of_name(const struct td_ggml_build *b, const char *name)
{
    struct td_ggml_backend *reg = b->backend_cpu_reg();
    void *sym = b->backend_reg_get_proc_address(reg, "ggml_backend_dev_get_extra_bufts");
    struct td_ggml_buffer_type **types;
    td_ggml_extra_types *extra;

    if (!sym)
        return NULL;
    memcpy(&extra, &sym, sizeof extra); /* ISO C has no cast from object to function */
    for (types = extra(b->backend_reg_dev_get(reg, 0)); types && *types; types++)
        if (!strcmp(b->backend_buft_name(*types), name))
            return *types;
    return NULL;
}

int td_ggml_repacked(const struct td_ggml_build *b, const char *layout, struct td_ggml_tensor *t, const void *data,
                     struct td_ggml_buffer **buffer, struct td_error *err)
{
    struct td_ggml_buffer_type *type = has_functions(b) ? type_of_name(b, layout) : NULL;
    const struct td_ggml_tensor before = *t;
    size_t bytes;

    *buffer = NULL;
    if (!type)
        return TD_OK;
    bytes = b->backend_buft_get_alloc_size(type, t);
    if (td_memory_room(bytes, layout, err))
        return TD_ENOMEM;
    if (!(*buffer = b->backend_buft_alloc_buffer(type, bytes)))
        return td_fail(err, TD_ENOMEM, "no memory for the %zu bytes of weights in ggml's layout %s", bytes, layout);
    b->backend_tensor_alloc(*buffer, t, b->backend_buffer_get_base(*buffer));
    if (!t->extra) { /* what repacks it; ggml ends the process when it has nothing of the kind */
        td_ggml_repacked_free(b, *buffer);
        *buffer = NULL;
        *t = before;
        return TD_OK;
    }
    b->backend_tensor_set(t, data, 0, b->nbytes(t));
    return TD_OK;
}

void td_ggml_repacked_free(const struct td_ggml_build *b, struct td_ggml_buffer *buffer)
{
    if (buffer)
        b->backend_buffer_free(buffer);
}
