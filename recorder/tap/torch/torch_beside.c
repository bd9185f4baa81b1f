/* torch_beside.c - a call of an operator that stands beside products, read as the work of one
 * launch.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/torch/torch_beside.h"

#include <string.h>

#include "recorder/tap/torch/torch_arguments.h"

#define MAX_BYTES (1ull << 35)        /* of one dimension less: no product by a size overflows */
#define MOST_BYTES (1ull << 20)       /* of a result that are recorded */

/* ---- operands -------------------------------------------------------------------------------- */

/* Do the elements of a row, all dimensions but the first, lie without gaps? */
static bool has_dense_rows(const struct tap_torch_tensor *t)
{
    int64_t stride = 1;
    int i;

    for (i = (int)t->ndim; --i > 0;) {
        if (t->sizes[i] != 1 && t->strides[i] != stride)
            return false;
        stride *= t->sizes[i];
    }
    return t->sizes[0] == 1 || t->strides[0] >= stride;
}

/* The length of a row, and its bytes. False: an operand has no such. */
static bool measure_row(const struct tap_torch_tensor *t, int64_t *cols, uint64_t *bytes)
{
    int i;

    *cols = 1, *bytes = tap_torch_dtype_bytes(t->dtype);
    for (i = 1; i < t->ndim; i++) {
        if (t->sizes[i] < 1 || t->sizes[i] > TD_GPU_MAX_SIZE || *bytes > MAX_BYTES)
            return false;
        *cols *= t->sizes[i];
        *bytes *= (uint64_t)t->sizes[i];
    }
    return *bytes && *bytes <= MAX_BYTES && *cols <= TD_GPU_MAX_SIZE;
}

bool tap_torch_beside_add(struct td_gpu_work *w, const struct tap_torch_role *role,
                          const struct tap_torch_tensor *t)
{
    const struct tap_torch_tensor one = {.ndim = 1, .sizes = (const int64_t[]){1}, .strides = (const int64_t[]){1},
                                         .dtype = t->dtype, .data = t->data},
                                  *x = t->ndim ? t : &one;
    const int64_t rows = x->sizes[0];
    int64_t cols, stride;
    uint64_t bytes;

    if (w->n_op == TD_GPU_OPERANDS || !x->data || rows < 1 || rows > TD_GPU_MAX_SIZE ||
        !measure_row(x, &cols, &bytes) || !has_dense_rows(x))
        return false;
    stride = rows == 1 ? cols : x->strides[0];
    if (stride > TD_GPU_MAX_SIZE ||
        (stride != cols && (x->ndim == 1 || role->use == TD_GPU_WEIGHT)))
        return false;
    w->op[w->n_op++] = (struct td_gpu_operand){.role = role->role,
                                               .dtype = tap_torch_dtype_name(x->dtype),
                                               .use = role->use,
                                               .address = (uintptr_t)x->data,
                                               .ndim = x->ndim > 1 ? 2 : 1,
                                               .shape = {rows, cols},
                                               .row_stride = x->ndim > 1 ? stride : rows,
                                               .bytes = (uint64_t)rows * bytes};
    return true;
}

/* ---- the call -------------------------------------------------------------------------------- */

/* A, or the first tensor, which sets m. */
static bool read_a(const struct tap_torch_meaning *m, const td_torch_value *stack,
                   struct td_gpu_work *w, td_torch_tensor *a)
{
    struct tap_torch_tensor t;
    int i = 0;

    while (i < TAP_TORCH_ROLES && m->row->roles[i].arg && strcmp(m->row->roles[i].role, "a"))
        i++;
    if (i == TAP_TORCH_ROLES || !m->row->roles[i].arg)
        i = 0;
    *a = tap_torch_tensor_of(&m->schema->arg[m->role[i]], stack[m->role[i]]);
    if (!tap_torch_read_on_gpu(*a, &t) || t.ndim < 1 || t.sizes[0] > TD_GPU_MAX_SIZE)
        return false;
    w->m = t.sizes[0];
    for (i = 1; i < t.ndim; i++)
        if (!t.sizes[i])
            w->m = 0;
    return true;
}

/* Positions of several sequences, and scales that lie in a row, could mean more than one thing. */
static bool is_ambiguous(const char *role, const struct tap_torch_tensor *t)
{
    return (!strcmp(role, "positions") && t->ndim != 1) ||
           (!strcmp(role, "scale") && t->ndim == 1 && t->sizes[0] != 1);
}

static bool read_operands(const struct tap_torch_meaning *m, const td_torch_value *stack,
                          struct td_gpu_work *w)
{
    struct tap_torch_tensor t;
    int i;

    for (i = 0; i < TAP_TORCH_ROLES && m->row->roles[i].arg; i++) {
        const struct tap_torch_arg *arg = &m->schema->arg[m->role[i]];

        if (!tap_torch_is_none(arg, stack[m->role[i]]) &&
            (!tap_torch_argument_on_gpu(arg, stack[m->role[i]], &t) ||
             is_ambiguous(m->row->roles[i].role, &t) ||
             !tap_torch_beside_add(w, &m->row->roles[i], &t)))
            return false;
    }
    return true;
}

/* Does the first output have a row for each of A's? */
static bool fits_output(const struct td_gpu_work *w)
{
    const struct td_gpu_operand *o = tap_gpu_gemm_output(w);

    return o && o->shape[0] == w->m;
}

/* The kernels take a float. */
static void read_epsilon(const struct tap_torch_meaning *m, const td_torch_value *stack,
                         struct td_gpu_work *w)
{
    double value;

    if (m->epsilon < 0)
        return;
    memcpy(&value, &stack[m->epsilon], sizeof value);
    w->scalar = "eps";
    w->scalar_value = (float)value;
}

static bool add_attr(struct td_gpu_work *w, const char *name, int64_t value)
{
    if (!strcmp(name, "n"))
        w->n = value;
    else if (w->n_attr < TD_GPU_ATTRS)
        w->attr[w->n_attr++] = (struct td_gpu_attr){name, value};
    else
        return false;
    return true;
}

static bool read_attrs(const struct tap_torch_meaning *m, const td_torch_value *stack,
                       struct td_gpu_work *w)
{
    const struct tap_torch_row *row = m->row;
    int i;

    for (i = 0; i < TAP_TORCH_NUMBERS; i++)
        if (row->attr[i] &&
            !add_attr(w, row->attr[i],
                      tap_torch_number_of(&m->schema->arg[m->number[i]], stack[m->number[i]], -1)))
            return false;
    for (i = 0; i < TAP_TORCH_SAYS; i++)
        if (row->says[i].name && !add_attr(w, row->says[i].name, row->says[i].value))
            return false;
    return !row->third || tap_gpu_gemm_outputs(w) < 3 || add_attr(w, row->third, 1);
}

static bool read_n(const struct tap_torch_meaning *m, const td_torch_value *stack,
                   struct td_gpu_work *w)
{
    struct tap_torch_tensor t;

    if (m->last_of < 0)
        return w->n > 0 && w->n <= TD_GPU_MAX_SIZE;
    if (!tap_torch_argument_on_gpu(&m->schema->arg[m->last_of], stack[m->last_of], &t) || t.ndim < 1)
        return false;
    w->n = t.sizes[t.ndim - 1];
    return w->n > 0 && w->n <= TD_GPU_MAX_SIZE;
}

/* ---- an operator that returns its output ------------------------------------------------------- */

/* What a weight of so many bits is, as products have it. */
static bool read_weight(const struct tap_torch_meaning *m, struct td_gpu_work *w)
{
    const struct td_gpu_operand *scales = &w->op[1];

    if (!m->row->w_bits)
        return true;
    w->bits = m->row->w_bits, w->zero_offset = 1;
    w->group_size = (int)(scales->ndim == 2 && scales->shape[0] && w->k % scales->shape[0] == 0
                              ? w->k / scales->shape[0]
                              : 0);
    return w->group_size && add_attr(w, "k", w->k);
}

/* How many rows of a weight lead from one that is recorded to the next: an odd number, so that no tile of a kernel is
 * seen at one place only. */
static int64_t rows_apart(const struct td_gpu_work *w, uint64_t row_bytes)
{
    const uint64_t bytes = (uint64_t)w->k * row_bytes;

    return bytes <= MOST_BYTES ? 1 : (int64_t)((bytes + MOST_BYTES - 1) / MOST_BYTES | 1);
}

/* The result, which has w->k rows. */
static bool add_result(const struct tap_torch_meaning *m, const td_torch_value *stack,
                       struct td_gpu_work *w)
{
    struct tap_torch_tensor t;
    uint64_t row_bytes;
    int64_t every = 1;

    if (!m->row->returns)
        return true;
    w->k = w->m;
    if (w->n_op == TD_GPU_OPERANDS ||
        !tap_torch_argument_on_gpu(&m->schema->arg[m->last_of], stack[m->last_of], &t) ||
        !read_weight(m, w))
        return false;
    row_bytes = (uint64_t)w->n * tap_torch_dtype_bytes(t.dtype);
    if (m->row->w_bits && !add_attr(w, "every", every = rows_apart(w, row_bytes)))
        return false;
    w->m = (w->k + every - 1) / every;
    w->op[w->n_op++] = (struct td_gpu_operand){.role = "c",
                                               .dtype = tap_torch_dtype_name(t.dtype),
                                               .use = TD_GPU_OUT,
                                               .address = TAP_GPU_LATER,
                                               .ndim = 2,
                                               .shape = {w->m, w->n},
                                               .row_stride = every * w->n,
                                               .bytes = (uint64_t)w->m * row_bytes};
    return row_bytes && every * w->n <= TD_GPU_MAX_SIZE;
}

uint64_t tap_torch_beside_result(const struct td_gpu_work *w, td_torch_value result)
{
    struct tap_torch_tensor t;
    const char *dtype;

    if (!tap_torch_read_on_gpu((td_torch_tensor)(uintptr_t)result, &t) || t.ndim != 2 ||
        t.sizes[0] != w->k || t.sizes[1] != w->n || !tap_torch_is_dense(&t))
        return 0;
    dtype = tap_torch_dtype_name(t.dtype);
    return dtype && !strcmp(dtype, tap_gpu_gemm_output(w)->dtype) ? (uintptr_t)t.data : 0;
}

/* ---- the call, whole ----------------------------------------------------------------------------- */

enum tap_torch_product tap_torch_beside_read(const struct tap_torch_meaning *m,
                                             const td_torch_value *stack, struct td_gpu_work *w,
                                             td_torch_tensor *a)
{
    memset(w, 0, sizeof *w);
    w->adapter = &m->adapter;
    w->whole = w->beside = true;
    if (m->cache_type >= 0)
        return tap_torch_cache_read(m, stack, w, a);
    if (!read_a(m, stack, w, a))
        return TAP_TORCH_UNKNOWN;
    if (!w->m)
        return TAP_TORCH_EMPTY;
    if (!read_operands(m, stack, w) || !read_attrs(m, stack, w) || !read_n(m, stack, w) ||
        !add_result(m, stack, w) || !fits_output(w))
        return TAP_TORCH_UNKNOWN;
    read_epsilon(m, stack, w);
    w->in_step = !m->row->once_a_step || !tap_gpu_gemm_weights(w);
    return TAP_TORCH_READ;
}
