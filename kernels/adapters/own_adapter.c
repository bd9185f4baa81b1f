/* own_adapter.c - a kernel that a file of the user's describes, as an adapter.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/adapters/own_adapter.h"

#include <string.h>

#include "kernels/adapters/adapter_read.h"
#include "kernels/gpucode/mangled.h"

/* ---- reading a launch ------------------------------------------------------------------------ */

/* A size; `otherwise`: the kernel has no such parameter. */
static int64_t size_of(const struct td_gpu_adapter *a, const struct td_gpu_values *v, const char *name,
                       int64_t otherwise)
{
    const int i = td_gpu_field_at(a, name);

    if (i < 0)
        return otherwise;
    return a->fields[i].size == 4 ? (int32_t)(uint32_t)v->value[i] : (int64_t)v->value[i];
}

static bool read_gemm(const struct td_own_row *row, const struct td_gpu_values *v, struct td_gpu_work *w)
{
    const bool nk = !strcmp(row->layout, "nk");

    td_gpu_work_add(w, v, "w", row->type, 2, nk ? w->n : w->k, nk ? w->k : w->n);
    return true;
}

static bool read_gptq(const struct td_own_row *row, const struct td_gpu_values *v, struct td_gpu_work *w)
{
    int64_t group = size_of(w->adapter, v, "group_size", row->group_size.given ? row->group_size.value : -1), per_word;

    group = group == -1 ? w->k : group;
    w->bits = (int)row->bits.value;
    if ((w->bits != 4 && w->bits != 8) || group < 1 || group > w->k || w->k % group)
        return false;
    per_word = 32 / w->bits;
    w->group_size = (int)group;
    w->zero_offset = (int)row->zero_offset.value;
    if (w->k % per_word || w->n % per_word)
        return false;
    td_gpu_work_add(w, v, "qweight", "I32", 4, w->k / per_word, w->n);
    td_gpu_work_add(w, v, "scales", row->type, 2, w->k / group, w->n);
    td_gpu_work_add(w, v, "qzeros", "I32", 4, w->k / group, w->n / per_word);
    td_gpu_work_add(w, v, "g_idx", "I32", 4, 0, w->k);
    w->act_order = td_gpu_value(w->adapter, v, "g_idx") != 0;
    return true;
}

/* A and C, whose rows may lie further apart than they are long. */
static bool set_stride(struct td_gpu_work *w, int op, int64_t stride)
{
    if (stride < w->op[op].shape[1] || stride > TD_GPU_MAX_SIZE)
        return false;
    w->op[op].row_stride = stride;
    return true;
}

static bool read_own(const struct td_gpu_adapter *a, const struct td_gpu_values *v, struct td_gpu_work *w)
{
    const struct td_own_row *row = ((const struct td_own_adapter *)a)->row;

    w->m = size_of(a, v, "m", 0), w->n = size_of(a, v, "n", 0), w->k = size_of(a, v, "k", 0);
    if (!td_gpu_is_size(w->m) || !td_gpu_is_size(w->n) || !td_gpu_is_size(w->k))
        return false;
    w->whole = true;
    w->rounding = td_own_rounding(row->rounding, strcmp(row->type, "F16") != 0);
    td_gpu_work_add(w, v, "a", row->type, 2, w->m, w->k);
    if (w->n_op != 1 || !set_stride(w, 0, size_of(a, v, "lda", w->k)) ||
        !(row->kind->quantised ? read_gptq(row, v, w) : read_gemm(row, v, w)))
        return false;
    td_gpu_work_add(w, v, "bias", row->type, 2, 0, w->n);
    td_gpu_work_add(w, v, "c", row->type, 2, w->m, w->n);
    return set_stride(w, w->n_op - 1, size_of(a, v, "ldc", w->n));
}

/* ---- the adapter ----------------------------------------------------------------------------- */

static enum td_gpu_use use_of(const struct td_own_row *row, const char *name)
{
    const int role = td_own_kind_role(row->kind, name);

    if (!strcmp(name, "c"))
        return row->adds ? TD_GPU_OUT_ZEROED : TD_GPU_OUT;
    return role < 0 ? TD_GPU_SCALAR : role ? TD_GPU_WEIGHT : TD_GPU_IN;
}

void td_own_adapter_init(struct td_own_adapter *a, const struct td_own_row *row)
{
    const bool nk = !strcmp(row->layout, "nk");
    int i;

    *a = (struct td_own_adapter){.row = row};
    for (i = 0; i < row->n_params; i++)
        a->fields[i] = (struct td_gpu_field){row->param[i].name, row->param[i].bytes, use_of(row, row->param[i].name)};
    a->adapter = (struct td_gpu_adapter){.family = row->name,
                                         .identifier = row->name,
                                         .kind = row->kind->name,
                                         .layout = nk ? "checkpoint" : row->layout,
                                         .fields = a->fields,
                                         .n_fields = row->n_params,
                                         .bits = (int)row->bits.value,
                                         .read = read_own};
}

bool td_own_adapter_is(const struct td_own_adapter *a, const char *symbol)
{
    return !strcmp(symbol, a->row->name) || td_gpu_symbol_is(symbol, a->row->name);
}

bool td_own_adapter_fits(const struct td_own_adapter *a, const struct td_gpu_param *params, int n_params)
{
    int i;

    for (i = 0; i < n_params && i < a->row->n_params; i++)
        if (params[i].size != a->row->param[i].bytes)
            return false;
    return n_params == a->row->n_params;
}
