/* tap_torch_tensor.c - read PyTorch's tensors from outside, and describe them as operands.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/torch/tap_torch_tensor.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "recorder/tap/core/tap_real.h"

static struct {                       /* valid once state is READY */
    td_torch_get_dim *dim;
    td_torch_get_lengths *sizes, *strides;
    td_torch_get_enum *dtype, *device;
    td_torch_get_data *data;
    td_torch_get_text *text;          /* NULL: before torch 2.10 */
} torch;
enum { UNKNOWN, LOOKING, READY, MISSING };
static _Atomic int state;

static bool find_functions(void *library)
{
    torch.dim = (td_torch_get_dim *)dlsym(library, "aoti_torch_get_dim");
    torch.sizes = (td_torch_get_lengths *)dlsym(library, "aoti_torch_get_sizes");
    torch.strides = (td_torch_get_lengths *)dlsym(library, "aoti_torch_get_strides");
    torch.dtype = (td_torch_get_enum *)dlsym(library, "aoti_torch_get_dtype");
    torch.device = (td_torch_get_enum *)dlsym(library, "aoti_torch_get_device_type");
    torch.data = (td_torch_get_data *)dlsym(library, "torch_get_const_data_ptr");
    if (!torch.data)                  /* before torch 2.10 */
        torch.data = (td_torch_get_data *)dlsym(library, "aoti_torch_get_data_ptr");
    torch.text = (td_torch_get_text *)dlsym(library, "torch_string_c_str");
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

bool tap_torch_found(void)
{
    return atomic_load_explicit(&state, memory_order_acquire) == READY;
}

/* The number of elements. False: more than an int64_t holds, or a negative size or stride. */
static bool count_elements(const struct tap_torch_tensor *t, int64_t *elements)
{
    int i;

    *elements = 1;
    for (i = 0; i < t->ndim; i++)
        if (t->sizes[i] < 0 || t->strides[i] < 0 ||
            __builtin_mul_overflow(*elements, t->sizes[i], elements))
            return false;
    return true;
}

bool tap_torch_read_shape(td_torch_tensor tensor, struct tap_torch_tensor *t)
{
    int64_t *sizes, *strides, elements;

    memset(t, 0, sizeof *t);
    if (!tensor || torch.device(tensor, &t->device) || torch.dim(tensor, &t->ndim) || t->ndim < 0 ||
        t->ndim > TAP_DIMS || torch.sizes(tensor, &sizes) || torch.strides(tensor, &strides) ||
        torch.dtype(tensor, &t->dtype))
        return false;
    t->sizes = sizes;
    t->strides = strides;
    return count_elements(t, &elements);
}

/* Read a tensor that lies on a device of this type, with its data. */
static bool read_on(td_torch_tensor tensor, int32_t device, struct tap_torch_tensor *t)
{
    int64_t elements;
    void *data = NULL;

    if (!tap_torch_read_shape(tensor, t) || t->device != device || torch.data(tensor, &data) ||
        !count_elements(t, &elements)) {
        memset(t, 0, sizeof *t);
        return false;
    }
    t->data = elements ? data : NULL;
    return t->data || !elements;
}

bool tap_torch_read(td_torch_tensor tensor, struct tap_torch_tensor *t)
{
    return read_on(tensor, TD_TORCH_CPU, t);
}

bool tap_torch_read_on_gpu(td_torch_tensor tensor, struct tap_torch_tensor *t)
{
    return read_on(tensor, TD_TORCH_CUDA, t);
}

bool tap_torch_is_on_device(td_torch_tensor tensor)
{
    int32_t device;

    return tensor && !torch.device(tensor, &device) && device != TD_TORCH_CPU;
}

const char *tap_torch_text(td_torch_string text)
{
    const char *s = NULL;

    return text && torch.text && !torch.text(text, &s) ? s : NULL;
}

bool tap_torch_read_optional(const struct td_torch_optional *o, struct tap_torch_tensor *t,
                             bool *has)
{
    memset(t, 0, sizeof *t);
    *has = o && o->has;
    return !*has || tap_torch_read(&o->tensor, t);
}

/* ---- the stream ------------------------------------------------------------------------------ */

bool tap_torch_stream(const void *fn, td_torch_tensor tensor, void **stream)
{
    static struct tap_symbol index = {.name = "aoti_torch_get_device_index"},
                             current = {.name = "aoti_torch_get_current_cuda_stream"};
    int e = errno;
    td_torch_get_enum *index_of = (td_torch_get_enum *)tap_real_find(&index, fn);
    td_torch_get_stream *stream_of = (td_torch_get_stream *)tap_real_find(&current, fn);
    int32_t device;

    errno = e;
    return index_of && stream_of && !index_of(tensor, &device) && !stream_of(device, stream);
}

/* ---- as an operand --------------------------------------------------------------------------- */

static const struct { int32_t dtype; uint64_t bytes; const char *name; } dtypes[] = {
    {TD_TORCH_BF16, 2, "BF16"}, {TD_TORCH_F16, 2, "F16"}, {TD_TORCH_F32, 4, "F32"},
    {TD_TORCH_U8, 1, "U8"},     {TD_TORCH_I8, 1, "I8"},   {TD_TORCH_I32, 4, "I32"},
    {TD_TORCH_I64, 8, "I64"},
    {TD_TORCH_F8_E4M3, 1, "F8_E4M3"}, {TD_TORCH_F8_E5M2, 1, "F8_E5M2"},
};

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

uint64_t tap_torch_dtype_bytes(int32_t dtype)
{
    size_t i = dtype_at(dtype);

    return i < sizeof dtypes / sizeof *dtypes ? dtypes[i].bytes : 0;
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
    uint64_t size = tap_torch_dtype_bytes(t->dtype), elements = 1;
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
