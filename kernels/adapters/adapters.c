/* adapters.c - the table of the kernels that are known, family after family.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/adapters/adapters.h"

#include "kernels/adapters/adapter_read.h"
#include "kernels/gpucode/mangled.h"

#define FAMILIES(X) X(exllama) X(marlin) X(td_gptq)

#define DECLARE(family) extern const struct td_gpu_adapters td_gpu_adapters_##family __attribute__((visibility("hidden")));
FAMILIES(DECLARE)

#define ENTRY(family) &td_gpu_adapters_##family,
static const struct td_gpu_adapters *const families[] = {FAMILIES(ENTRY)};

const struct td_gpu_adapter *td_gpu_adapter_at(int i)
{
    if (i < 0)
        return NULL;
    for (int f = 0; f < TD_GPU_COUNT(families); i -= families[f++]->n)
        if (i < families[f]->n)
            return &families[f]->entries[i];
    return NULL;
}

static bool fits_entry(const struct td_gpu_adapter *row, const char *symbol, const struct td_gpu_param *params, int n_params)
{
    int i;

    if (n_params != row->n_fields)
        return false;
    for (i = 0; i < row->n_arguments; i++)
        if (td_gpu_symbol_argument(symbol, row->arguments[i].at) != row->arguments[i].value)
            return false;
    for (i = 0; i < n_params; i++)
        if (params[i].size != row->fields[i].size)
            return false;
    return true;
}

const struct td_gpu_adapter *td_gpu_adapter_find(const char *symbol, const struct td_gpu_param *params, int n_params, bool *known)
{
    const struct td_gpu_adapter *row;
    bool named = false;
    int i;

    for (i = 0; (row = td_gpu_adapter_at(i)); i++) {
        if (!td_gpu_symbol_is(symbol, row->identifier))
            continue;
        named = true;
        if (fits_entry(row, symbol, params, n_params))
            break;
    }
    if (known)
        *known = named;
    return row;
}

bool td_gpu_symbol_adds(const char *symbol)
{
    const struct td_gpu_adapter *row;

    for (int i = 0; (row = td_gpu_adapter_at(i)); i++)
        if (td_gpu_symbol_is(symbol, row->identifier)) {
            int c = td_gpu_field_at(row, "c");

            return c >= 0 && row->fields[c].use == TD_GPU_OUT_ZEROED;
        }
    return false;
}
