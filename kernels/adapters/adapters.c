/* adapters.c - the table of the kernels that are known, family after family.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/adapters/adapters.h"

#include <string.h>

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

static bool fits_entry(const struct td_gpu_adapter *adapter, const char *symbol, const struct td_gpu_param *params, int n_params)
{
    int i;

    if (n_params != adapter->n_fields)
        return false;
    for (i = 0; i < adapter->n_arguments; i++)
        if (td_gpu_symbol_argument(symbol, adapter->arguments[i].at) != adapter->arguments[i].value)
            return false;
    for (i = 0; i < n_params; i++)
        if (params[i].size != adapter->fields[i].size)
            return false;
    return true;
}

const struct td_gpu_adapter *td_gpu_adapter_find(const char *symbol, const struct td_gpu_param *params, int n_params, bool *known)
{
    const struct td_gpu_adapter *adapter;
    bool named = false;
    int i;

    for (i = 0; (adapter = td_gpu_adapter_at(i)); i++) {
        if (!td_gpu_symbol_is(symbol, adapter->identifier))
            continue;
        named = true;
        if (fits_entry(adapter, symbol, params, n_params))
            break;
    }
    if (known)
        *known = named;
    return adapter;
}

bool td_gpu_symbol_is_operator(const char *symbol)
{
    return symbol[0] == '_' && strstr(symbol, "::");
}

bool td_gpu_kernel_adds(const char *symbol, const char *layout, int64_t bits, int64_t rows)
{
    const bool is_operator = td_gpu_symbol_is_operator(symbol);
    const struct td_gpu_adapter *adapter;
    bool adds = false;

    if (is_operator && !strcmp(layout, "wna16")) /* vLLM's moe_wna16.cu: the blocks of K add to C */
        return true;
    if (is_operator && !strcmp(layout, "exllama") && rows > TD_GPU_EXLLAMA_MOST_ROWS(bits))
        return false;
    for (int i = 0; !adds && (adapter = td_gpu_adapter_at(i)); i++)
        if (is_operator ? !strcmp(layout, adapter->layout) : td_gpu_symbol_is(symbol, adapter->identifier)) {
            int c = td_gpu_field_at(adapter, "c");

            adds = c >= 0 && adapter->fields[c].use == TD_GPU_OUT_ZEROED;
        }
    return adds;
}
