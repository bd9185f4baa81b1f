/* adapter.c - what holds for the entry of any kernel: its fields, and the values of a launch.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/adapters/adapter.h"

#include <string.h>

const char *td_gpu_rounding_bias_after(const char *factors)
{
    return !factors                        ? "bias-after"
           : !strcmp(factors, "weight-f16") ? "weight-f16+bias-after"
                                            : "weight-bf16+bias-after";
}

int td_gpu_field_at(const struct td_gpu_adapter *adapter, const char *name)
{
    int i;

    for (i = 0; i < adapter->n_fields; i++)
        if (!strcmp(adapter->fields[i].name, name))
            return i;
    return -1;
}

bool td_gpu_values_read(const struct td_gpu_adapter *adapter, const struct td_gpu_param *params,
                        void *const *kernel_params, const void *block, size_t block_bytes,
                        struct td_gpu_values *v)
{
    int i;

    memset(v, 0, sizeof *v);
    for (i = 0; i < adapter->n_fields; i++) {
        uint32_t size = adapter->fields[i].size;
        const void *from;

        if (!kernel_params && (!block || params[i].offset > block_bytes || size > block_bytes - params[i].offset))
            return false;
        from = kernel_params ? kernel_params[i] : (const uint8_t *)block + params[i].offset;
        if (!from)
            return false;
        if (size <= sizeof v->value[i])
            memcpy(&v->value[i], from, size); /* little-endian */
    }
    return true;
}

bool td_gpu_work_read(const struct td_gpu_adapter *adapter, const struct td_gpu_values *v, struct td_gpu_work *w)
{
    memset(w, 0, sizeof *w);
    w->adapter = adapter;
    return adapter->read(adapter, v, w) && (td_gpu_field_at(adapter, "m") < 0 || (w->m > 0 && w->m <= TD_GPU_MAX_SIZE));
}
