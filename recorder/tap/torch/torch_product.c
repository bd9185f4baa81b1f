/* torch_product.c - a call of an operator that multiplies, read as the work of one launch.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/torch/torch_product.h"

#include <string.h>

#include "recorder/tap/torch/torch_arguments.h"

/* The tensor at that place, on a GPU. False: it is None, or cannot be read. */
static bool read_tensor(const struct tap_torch_meaning *m, int place, const td_torch_value *stack,
                        struct tap_torch_tensor *t)
{
    return tap_torch_read_on_gpu(tap_torch_tensor_of(&m->schema->arg[place], stack[place]), t);
}

/* Do the elements of a matrix lie without gaps, column after column? */
static bool is_dense_by_columns(const struct tap_torch_tensor *t)
{
    return t->ndim == 2 && t->strides[0] == 1 && t->strides[1] == t->sizes[0];
}

/* Describe *t as operand `role`. False: more than two dimensions, or gaps where there must be
 * none. */
static bool add_operand(struct td_gpu_work *w, const struct tap_torch_role *role,
                        const struct tap_torch_tensor *t, bool any_layout)
{
    const char *dtype = tap_torch_dtype_name(t->dtype);
    bool dense = tap_torch_is_dense(t) || (any_layout && is_dense_by_columns(t)),
         rows = role->use == TD_GPU_IN && t->ndim == 2 && t->strides[1] == 1 &&
                t->strides[0] >= t->sizes[1];
    struct td_gpu_operand *o = &w->op[w->n_op];
    int i;

    if (!dtype || !t->data || t->ndim < 1 || t->ndim > 2 || (!dense && !rows))
        return false;
    *o = (struct td_gpu_operand){.role = role->role,
                                 .dtype = dtype,
                                 .use = role->use,
                                 .address = (uintptr_t)t->data,
                                 .ndim = (int)t->ndim,
                                 .bytes = tap_torch_dtype_bytes(t->dtype)};
    for (i = 0; i < o->ndim; i++) {
        if (t->sizes[i] > TD_GPU_MAX_SIZE)
            return false;
        o->shape[i] = t->sizes[i];
        o->bytes *= (uint64_t)t->sizes[i];
    }
    o->row_stride = dense ? o->shape[o->ndim - 1] : t->strides[0];
    w->n_op++;
    return o->row_stride <= TD_GPU_MAX_SIZE;
}

/* A, which sets m and k. */
static bool read_input(const struct tap_torch_meaning *m, const td_torch_value *stack,
                       struct td_gpu_work *w, td_torch_tensor *a)
{
    struct tap_torch_tensor t;
    int i;

    for (i = 0; m->row->roles[i].use != TD_GPU_IN; i++)
        ;
    if (!read_tensor(m, m->role[i], stack, &t) || t.ndim != 2)
        return false;
    *a = tap_torch_tensor_of(&m->schema->arg[m->role[i]], stack[m->role[i]]);
    w->m = t.sizes[0], w->k = t.sizes[1];
    w->rounding = t.dtype == TD_TORCH_BF16 ? "weight-bf16" : "weight-f16";
    return t.dtype == TD_TORCH_BF16 || t.dtype == TD_TORCH_F16;
}

/* All tensors but the output. */
static bool read_tensors(const struct tap_torch_meaning *m, const td_torch_value *stack,
                         struct td_gpu_work *w)
{
    struct tap_torch_tensor t;
    bool weights = false;
    int i;

    for (i = 0; i < TAP_TORCH_ROLES && m->row->roles[i].arg; i++) {
        const struct tap_torch_role *role = &m->row->roles[i];
        const bool first = role->use == TD_GPU_WEIGHT && !weights;

        if (role->use == TD_GPU_WEIGHT && !first &&
            tap_torch_is_none(&m->schema->arg[m->role[i]], stack[m->role[i]]))
            continue;
        if (!read_tensor(m, m->role[i], stack, &t) || !add_operand(w, role, &t, first))
            return false;
        weights |= first;
    }
    return weights;
}

/* What vLLM's id of a type says; 0: a type with zero points, or not known here. */
static int bits_of(int64_t type)
{
    return type == TD_GPU_VLLM_U4B8 ? 4 : type == TD_GPU_VLLM_U8B128 ? 8 : 0;
}

/* The attributes of kind gptq_gemm. */
static bool read_quantisation(const struct tap_torch_meaning *m, const td_torch_value *stack,
                              struct td_gpu_work *w)
{
    const struct tap_torch_arg *arg = m->schema->arg;
    struct tap_torch_tensor t;
    int64_t group = tap_torch_int_of(&arg[m->group_size], stack[m->group_size], -1);

    if (!read_tensor(m, m->n_of, stack, &t) || t.ndim < 1)
        return false;
    w->n = t.sizes[t.ndim - 1];
    w->bits = bits_of(tap_torch_int_of(&arg[m->type], stack[m->type], 0));
    group = group == -1 ? w->k : group;
    if (!w->bits || w->n < 1 || group < 1 || group > w->k || w->k % group)
        return false;
    w->group_size = (int)group;
    w->zero_offset = 1;
    return true;
}

static const struct td_gpu_operand *input_of(const struct td_gpu_work *w)
{
    return tap_gpu_gemm_operand(w, TD_GPU_IN);
}

static bool is_plain(const struct tap_torch_meaning *m, const td_torch_value *stack)
{
    int i;

    for (i = 0; i < TAP_TORCH_ABSENT; i++)
        if (m->absent[i] >= 0 &&
            !tap_torch_is_none(&m->schema->arg[m->absent[i]], stack[m->absent[i]]))
            return false;
    return true;
}

enum tap_torch_product tap_torch_product_read(const struct tap_torch_meaning *m,
                                              const td_torch_value *stack, struct td_gpu_work *w,
                                              td_torch_tensor *a)
{
    memset(w, 0, sizeof *w);
    w->adapter = &m->adapter;
    w->whole = true;
    if (!is_plain(m, stack) || !read_input(m, stack, w, a))
        return TAP_TORCH_UNKNOWN;
    if (!w->m)
        return TAP_TORCH_EMPTY;
    if (!read_tensors(m, stack, w) || !read_quantisation(m, stack, w))
        return TAP_TORCH_UNKNOWN;
    w->op[w->n_op++] = (struct td_gpu_operand){.role = "c",
                                               .dtype = input_of(w)->dtype,
                                               .use = TD_GPU_OUT,
                                               .address = TAP_GPU_LATER,
                                               .ndim = 2,
                                               .shape = {w->m, w->n},
                                               .row_stride = w->n,
                                               .bytes = (uint64_t)w->m * (uint64_t)w->n * 2};
    return TAP_TORCH_READ;
}

uint64_t tap_torch_product_result(const struct td_gpu_work *w, td_torch_value result)
{
    const char *dtype;
    struct tap_torch_tensor t;

    if (!tap_torch_read_on_gpu((td_torch_tensor)(uintptr_t)result, &t) || t.ndim != 2 ||
        t.sizes[0] != w->m || t.sizes[1] != w->n || !tap_torch_is_dense(&t))
        return 0;
    dtype = tap_torch_dtype_name(t.dtype);
    return dtype && !strcmp(dtype, input_of(w)->dtype) ? (uintptr_t)t.data : 0;
}
