/* adapter_read.c - what the entries of kernels use to read the values of a launch.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/adapters/adapter_read.h"

uint64_t td_gpu_value(const struct td_gpu_adapter *adapter, const struct td_gpu_values *v, const char *name)
{
    int i = td_gpu_field_at(adapter, name);

    return i < 0 ? 0 : v->value[i];
}

bool td_gpu_is_size(int64_t x)
{
    return x > 0 && x <= TD_GPU_MAX_SIZE;
}

void td_gpu_work_add(struct td_gpu_work *w, const struct td_gpu_values *v, const char *role,
                     const char *dtype, uint64_t element_bytes, int64_t rows, int64_t cols)
{
    int i = td_gpu_field_at(w->adapter, role);
    struct td_gpu_operand *o;

    if (i < 0 || w->n_op == TD_GPU_OPERANDS)
        return;
    o = &w->op[w->n_op++];
    *o = (struct td_gpu_operand){.role = role,
                                 .dtype = dtype,
                                 .use = w->adapter->fields[i].use,
                                 .address = v->value[i],
                                 .ndim = rows ? 2 : 1,
                                 .shape = {rows ? rows : cols, rows ? cols : 0},
                                 .row_stride = cols,
                                 .bytes =
                                     (uint64_t)(rows ? rows : 1) * (uint64_t)cols * element_bytes};
}

bool td_gpu_read_gptq(const struct td_gpu_adapter *adapter, const struct td_gpu_values *v, struct td_gpu_work *w)
{
    int64_t groups = (int32_t)td_gpu_value(adapter, v, "groups"), per_word = 32 / adapter->bits;

    w->m = td_gpu_field_at(adapter, "m") < 0 ? w->m : (int32_t)td_gpu_value(adapter, v, "m");
    w->n = (int32_t)td_gpu_value(adapter, v, "n");
    w->k = (int32_t)td_gpu_value(adapter, v, "k");
    w->bits = adapter->bits;
    if (!td_gpu_is_size(w->n) || !td_gpu_is_size(w->k) || !td_gpu_is_size(groups) ||
        w->k % groups || w->k % per_word || w->n % per_word)
        return false;
    w->group_size = (int)(w->k / groups);
    w->zero_offset = td_gpu_field_at(adapter, "v2") < 0 || !td_gpu_value(adapter, v, "v2");
    w->act_order = td_gpu_value(adapter, v, "perm") || td_gpu_value(adapter, v, "g_idx");
    td_gpu_work_add(w, v, "a", "F16", 2, w->m, w->k);
    td_gpu_work_add(w, v, "qweight", "I32", 4, w->k / per_word, w->n);
    td_gpu_work_add(w, v, "qzeros", "I32", 4, groups, w->n / per_word);
    td_gpu_work_add(w, v, "scales", "F16", 2, groups, w->n);
    td_gpu_work_add(w, v, "perm", "I32", 4, 0, w->k);
    td_gpu_work_add(w, v, "g_idx", "I32", 4, 0, w->k);
    td_gpu_work_add(w, v, "c", "F16", 2, w->m, w->n);
    td_gpu_work_add(w, v, "b", "F16", 2, w->k, w->n);
    return true;
}
