/* tap_torch_tensor.c - read PyTorch's tensors from outside.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/torch/tap_torch_tensor.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

typedef int32_t get_i64_fn(const void *, int64_t *);
typedef int32_t get_dims_fn(const void *, int64_t **);
typedef int32_t get_i32_fn(const void *, int32_t *);
typedef int32_t get_ptr_fn(const void *, void **);

static struct {
    get_i64_fn *dim;
    get_dims_fn *sizes, *strides;
    get_i32_fn *dtype, *device;
    get_ptr_fn *data;
} torch;
enum { UNKNOWN, LOOKING, READY, MISSING };
static _Atomic int state;

static bool find_functions(void *library)
{
    torch.dim = (get_i64_fn *)dlsym(library, "aoti_torch_get_dim");
    torch.sizes = (get_dims_fn *)dlsym(library, "aoti_torch_get_sizes");
    torch.strides = (get_dims_fn *)dlsym(library, "aoti_torch_get_strides");
    torch.dtype = (get_i32_fn *)dlsym(library, "aoti_torch_get_dtype");
    torch.device = (get_i32_fn *)dlsym(library, "aoti_torch_get_device_type");
    torch.data = (get_ptr_fn *)dlsym(library, "torch_get_const_data_ptr");
    if (!torch.data)                   /* before 2.10: asks for memory to write in, so it warns of a tensor that is being traced, and makes a shared one its own */
        torch.data = (get_ptr_fn *)dlsym(library, "aoti_torch_get_data_ptr");
    return torch.dim && torch.sizes && torch.strides && torch.dtype && torch.device && torch.data;
}

bool tap_torch_ready(const void *fn)
{
    int now = atomic_load_explicit(&state, memory_order_acquire), unknown = UNKNOWN, e = errno;
    void *library;

    if (now != UNKNOWN)
        return now == READY;
    if (!atomic_compare_exchange_strong(&state, &unknown, LOOKING))
        return false;                 /* another thread looks now */
    library = tap_real_library(fn, NULL, 0);
    now = library && find_functions(library) ? READY : MISSING;
    if (library)
        dlclose(library);
    atomic_store_explicit(&state, now, memory_order_release);
    errno = e;
    return now == READY;
}

bool tap_torch_read(const void *handle, struct tap_torch_tensor *t)
{
    int64_t *sizes, *strides, elements = 1;
    int32_t device;
    void *data = NULL;
    int i;

    memset(t, 0, sizeof *t);
    if (!handle || torch.device(handle, &device) || device != 0 || torch.dim(handle, &t->ndim) || t->ndim < 0 || t->ndim > TAP_DIMS ||
        torch.sizes(handle, &sizes) || torch.strides(handle, &strides) || torch.dtype(handle, &t->dtype) || torch.data(handle, &data))
        return false;
    for (i = 0; i < t->ndim; i++)
        if (sizes[i] < 0 || strides[i] < 0 || __builtin_mul_overflow(elements, sizes[i], &elements))
            return false;
    t->sizes = sizes;
    t->strides = strides;
    t->data = elements ? data : NULL;
    return t->data || !elements;
}

bool tap_torch_elsewhere(const void *handle)
{
    int32_t device;

    return handle && !torch.device(handle, &device) && device != 0;
}

bool tap_torch_read_optional(const struct tap_torch_optional *o, struct tap_torch_tensor *t, bool *has)
{
    memset(t, 0, sizeof *t);
    *has = o && o->has;
    return !*has || tap_torch_read(&o->tensor, t);
}

/* ---- words for it -------------------------------------------------------------------------------------------------- */

static const struct { int32_t dtype; uint64_t size; const char *name; } dtypes[] = {
    {TAP_TORCH_BF16, 2, "BF16"}, {TAP_TORCH_F16, 2, "F16"}, {TAP_TORCH_F32, 4, "F32"}, {TAP_TORCH_U8, 1, "U8"}, {TAP_TORCH_I8, 1, "I8"}, {TAP_TORCH_I32, 4, "I32"}};

static size_t dtype_at(int32_t dtype)
{
    size_t i;

    for (i = 0; i < sizeof dtypes / sizeof *dtypes && dtypes[i].dtype != dtype; i++)
        ;
    return i;
}

const char *tap_torch_dtype_name(int32_t dtype)
{
    size_t i = dtype_at(dtype);

    return i < sizeof dtypes / sizeof *dtypes ? dtypes[i].name : NULL;
}

uint64_t tap_torch_dtype_size(int32_t dtype)
{
    size_t i = dtype_at(dtype);

    return i < sizeof dtypes / sizeof *dtypes ? dtypes[i].size : 0;
}

bool tap_torch_is_dense(const struct tap_torch_tensor *t)
{
    int64_t stride = 1;
    int i;

    for (i = (int)t->ndim; i--;) {
        if (t->sizes[i] != 1 && t->strides[i] != stride)
            return false;
        stride *= t->sizes[i];
    }
    return true;
}

bool tap_torch_operand(struct tap_operand *o, const char *role, const struct tap_torch_tensor *t)
{
    uint64_t size = tap_torch_dtype_size(t->dtype), elements = 1;
    bool dense = tap_torch_is_dense(t);
    int64_t stride = 1;
    int i;

    if (!size || (!dense && (t->ndim != 2 || t->strides[1] != 1 || t->strides[0] < t->sizes[1])))
        return false;
    memset(o, 0, sizeof *o);
    o->role = role;
    o->dtype = tap_torch_dtype_name(t->dtype);
    o->ndim = (int32_t)t->ndim;
    for (i = (int)t->ndim; i--; stride *= t->sizes[i]) {
        o->shape[i] = t->sizes[i];
        o->strides[i] = stride;
        elements *= (uint64_t)t->sizes[i];
    }
    o->data = t->data ? t->data : ""; /* no elements: nothing to read, and not opaque */
    o->bytes = elements * size;
    if (!dense) {
        o->row_bytes = (uint64_t)t->sizes[1] * size;
        o->pitch = (uint64_t)t->strides[0] * size;
    }
    return true;
}
