/* torch_product.c - a call of an operator that multiplies, read as the work of one launch.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/torch/torch_product.h"

#include <string.h>

#include "recorder/tap/torch/torch_product_kinds.h"

/* How each kind of op is read; layout NULL: whatever layout its weights have. */
static const struct { const char *kind, *layout; tap_torch_product_kind *read; } kinds[] = {
    {"gptq_gemm", "allspark", tap_torch_product_allspark},
    {"gptq_gemm", NULL, tap_torch_product_gptq_gemm},
    {"moe_gemm", "wna16", tap_torch_product_moe_wna16},
    {"moe_gemm", NULL, tap_torch_product_moe_gemm},
    {"moe_scaled_mm", NULL, tap_torch_product_moe_scaled_mm},
    {"scaled_mm", NULL, tap_torch_product_scaled_mm},
};

#define TAP_TORCH_MAX_BYTES (1ull << 35) /* of one dimension less: no product by a size overflows */

static bool read_tensor(const struct tap_torch_meaning *m, int place, const td_torch_value *stack,
                        struct tap_torch_tensor *t)
{
    return tap_torch_argument_on_gpu(&m->schema->arg[place], stack[place], t);
}

/* Do the elements of a matrix lie without gaps, column after column? */
static bool is_dense_by_columns(const struct tap_torch_tensor *t)
{
    return t->ndim == 2 && t->strides[0] == 1 && t->strides[1] == t->sizes[0];
}

/* *t turned: its transpose. The lengths are copied to `lengths`. */
static struct tap_torch_tensor turn(const struct tap_torch_tensor *t, int64_t lengths[4])
{
    struct tap_torch_tensor turned = *t;

    if (t->ndim == 2) {
        lengths[0] = t->sizes[1], lengths[1] = t->sizes[0];
        lengths[2] = t->strides[1], lengths[3] = t->strides[0];
        turned.sizes = lengths, turned.strides = lengths + 2;
    }
    return turned;
}

/* Do the rows of a matrix lie without gaps within, one after the other? */
static bool has_dense_rows(const struct tap_torch_tensor *t)
{
    return t->ndim == 2 && t->strides[1] == 1 && t->strides[0] >= t->sizes[1];
}

enum lies { BY_ROWS, BY_COLUMNS, ANYHOW };

/* How must the argument lie? */
static enum lies lies_how(const struct tap_torch_row *row, const char *arg, bool first_weight)
{
    int i;

    for (i = 0; i < TAP_TORCH_TURNED && row->by_columns[i]; i++)
        if (!strcmp(row->by_columns[i], arg))
            return BY_COLUMNS;
    return first_weight ? ANYHOW : BY_ROWS;
}

/* Describe *t as operand `role`. False: more dimensions than an operand has, or gaps where there
 * must be none. */
static bool add_operand(struct td_gpu_work *w, const struct tap_torch_role *role,
                        const struct tap_torch_tensor *given, enum lies lies)
{
    int64_t lengths[4];
    const struct tap_torch_tensor turned = turn(given, lengths),
                                  *t = lies == BY_COLUMNS ? &turned : given;
    const char *dtype = tap_torch_dtype_name(t->dtype);
    bool dense = tap_torch_is_dense(t) || (lies == ANYHOW && is_dense_by_columns(t));
    struct td_gpu_operand *o = &w->op[w->n_op];
    int i;

    if (w->n_op == TD_GPU_OPERANDS || !dtype || !t->data ||
        (!dense && (role->use == TD_GPU_WEIGHT || !has_dense_rows(t))) ||
        t->ndim > (role->use == TD_GPU_WEIGHT ? TD_GPU_DIMS : 2))
        return false;
    *o = (struct td_gpu_operand){.role = role->role,
                                 .dtype = dtype,
                                 .use = role->use,
                                 .address = (uintptr_t)t->data,
                                 .ndim = t->ndim ? (int)t->ndim : 1,
                                 .shape = {1},
                                 .bytes = tap_torch_dtype_bytes(t->dtype)};
    for (i = 0; i < t->ndim; i++) {
        if (t->sizes[i] > TD_GPU_MAX_SIZE || o->bytes > TAP_TORCH_MAX_BYTES)
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
    return true;
}

/* vLLM gives a tensor without elements where others give None. */
static bool is_empty(const struct tap_torch_tensor *t)
{
    int i;

    for (i = 0; i < t->ndim && t->sizes[i]; i++)
        ;
    return i < t->ndim;
}

/* All tensors but the output. */
static bool read_tensors(const struct tap_torch_meaning *m, const td_torch_value *stack,
                         struct td_gpu_work *w)
{
    struct tap_torch_tensor t;
    bool weights = false, input = false;
    int i;

    for (i = 0; i < TAP_TORCH_ROLES && m->row->roles[i].arg; i++) {
        const struct tap_torch_role *role = &m->row->roles[i];
        const bool weight = role->use == TD_GPU_WEIGHT, first = weight ? !weights : !input;

        if (!first && tap_torch_is_none(&m->schema->arg[m->role[i]], stack[m->role[i]]))
            continue;
        if (!read_tensor(m, m->role[i], stack, &t))
            return false;
        if (role->use == TD_GPU_WEIGHT && !first && is_empty(&t))
            continue;
        if (!add_operand(w, role, &t, lies_how(m->row, role->arg, first && weight)))
            return false;
        weights |= weight, input |= !weight;
    }
    return weights;
}

/* n, as far as the row says it, and what the kind alone has. */
static bool read_kind(const struct tap_torch_meaning *m, const td_torch_value *stack,
                      struct td_gpu_work *w)
{
    struct tap_torch_tensor t;
    size_t i;

    if (m->n_of >= 0) {
        if (!read_tensor(m, m->n_of, stack, &t) || t.ndim < 1)
            return false;
        w->n = t.sizes[t.ndim - 1];
    }
    if (m->row->own)
        return tap_torch_product_own(m, stack, w) && w->n > 0 && w->n <= TD_GPU_MAX_SIZE;
    for (i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].kind, m->row->kind) &&
            (!kinds[i].layout || !strcmp(kinds[i].layout, m->row->layout)))
            return kinds[i].read(m, stack, w) && w->n > 0 && w->n <= TD_GPU_MAX_SIZE;
    return false;
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
    for (i = 0; i < TAP_TORCH_FIXED; i++)
        if (m->fixed[i] >= 0 &&
            tap_torch_number_of(&m->schema->arg[m->fixed[i]], stack[m->fixed[i]], -1) !=
                m->row->fixed[i].value)
            return false;
    return true;
}

static int64_t rows_of_c(const struct td_gpu_work *w)
{
    return w->c_rows ? w->c_rows : w->m;
}

/* A dense tensor [tokens, choices, n], in which vLLM has C of a mixture, becomes [rows, n]. The
 * lengths are copied to `lengths`. */
static void make_rows(struct tap_torch_tensor *t, int64_t lengths[4])
{
    if (t->ndim != 3 || !tap_torch_is_dense(t))
        return;
    lengths[0] = t->sizes[0] * t->sizes[1], lengths[1] = lengths[2] = t->sizes[2], lengths[3] = 1;
    t->ndim = 2, t->sizes = lengths, t->strides = lengths + 2;
}

/* C. One that is returned has A's type, or the one that the user says, and lies nobody knows where
 * yet. */
static bool add_output(const struct tap_torch_meaning *m, const td_torch_value *stack,
                       struct td_gpu_work *w)
{
    static const struct tap_torch_role c = {.role = "c", .use = TD_GPU_OUT};
    struct tap_torch_tensor t;
    int64_t lengths[4];

    if (m->out >= 0) {
        if (!read_tensor(m, m->out, stack, &t))
            return false;
        make_rows(&t, lengths);
        return t.ndim == 2 && t.sizes[0] == rows_of_c(w) && t.sizes[1] == w->n &&
               add_operand(w, &c, &t, BY_ROWS);
    }
    if (w->n_op == TD_GPU_OPERANDS)
        return false;
    w->op[w->n_op++] = (struct td_gpu_operand){.role = c.role,
                                               .dtype = m->row->own && m->row->own->type
                                                            ? m->row->own->type
                                                            : input_of(w)->dtype,
                                               .use = TD_GPU_OUT,
                                               .address = TAP_GPU_LATER,
                                               .ndim = 2,
                                               .shape = {rows_of_c(w), w->n},
                                               .row_stride = w->n,
                                               .bytes = (uint64_t)rows_of_c(w) * (uint64_t)w->n * 2};
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
    if (!read_tensors(m, stack, w) || !read_kind(m, stack, w))
        return TAP_TORCH_UNKNOWN;
    return add_output(m, stack, w) ? TAP_TORCH_READ : TAP_TORCH_UNKNOWN;
}

uint64_t tap_torch_product_result(const struct td_gpu_work *w, td_torch_value result)
{
    const char *dtype;
    struct tap_torch_tensor t;

    if (!tap_torch_read_on_gpu((td_torch_tensor)(uintptr_t)result, &t) || t.ndim != 2 ||
        t.sizes[0] != rows_of_c(w) || t.sizes[1] != w->n || !tap_torch_is_dense(&t))
        return 0;
    dtype = tap_torch_dtype_name(t.dtype);
    return dtype && !strcmp(dtype, tap_gpu_gemm_output(w)->dtype) ? (uintptr_t)t.data : 0;
}
