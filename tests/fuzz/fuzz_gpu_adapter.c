/* fuzz_gpu_adapter.c - fuzz the adapters (kernels/adapters) with launches of any kernel name and
 * any parameters: no adapter knows the launch, or the op that the adapter reads from it is
 * consistent.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Input: a symbol and a NUL; the sizes of the parameters, a byte each, and a zero; the parameter
 * block. */
#include <stdlib.h>
#include <string.h>

#include "kernels/adapters/adapters.h"
#include "kernels/gpucode/mangled.h"
#include "tests/fuzz/fuzz_main.h"

/* Lay out the parameters as a compiler does. */
static int read_params(const uint8_t *data, size_t n, struct td_gpu_param *params)
{
    uint32_t at = 0;
    int i;

    for (i = 0; i < TD_GPU_PARAMS && (size_t)i < n && data[i]; i++) {
        uint32_t size = data[i] > 8 ? 8 : data[i];

        at = (at + size - 1) / size * size;
        params[i] = (struct td_gpu_param){at, size};
        at += size;
    }
    return i;
}

static void expect_sane(const struct td_gpu_work *w)
{
    int i;

    if (w->n_op < 1 || w->n_op > TD_GPU_OPERANDS || w->n <= 0 || w->k <= 0 || w->group_size <= 0)
        abort();
    for (i = 0; i < w->n_op; i++) {
        const struct td_gpu_operand *o = &w->op[i];
        uint64_t elements = (uint64_t)o->shape[0] * (uint64_t)(o->ndim > 1 ? o->shape[1] : 1);

        if (o->ndim < 1 || o->ndim > 2 || o->shape[0] <= 0 || !elements || o->bytes % elements || o->bytes / elements > 8 || o->row_stride < o->shape[o->ndim - 1])
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const uint8_t *end = memchr(data, 0, n);
    struct td_gpu_param params[TD_GPU_PARAMS];
    const struct td_gpu_adapter *adapter;
    struct td_gpu_values v;
    struct td_gpu_work w;
    int n_params, i;

    if (!end)
        return 0;
    n -= (size_t)(end + 1 - data);
    n_params = read_params(end + 1, n, params);
    adapter = td_gpu_adapter_find((const char *)data, params, n_params, NULL);
    for (i = 0; i < 14; i++)
        td_gpu_symbol_argument((const char *)data, i);
    end += 1 + n_params + 1;
    n = n > (size_t)n_params ? n - (size_t)n_params - 1 : 0;
    if (adapter && td_gpu_values_read(adapter, params, NULL, n ? end : NULL, n, &v) && td_gpu_work_read(adapter, &v, &w))
        expect_sane(&w);
    return 0;
}

TD_FUZZ_MAIN("tests/fuzz/corpus/gpu_adapter", 100000)
