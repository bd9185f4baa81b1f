/* gpu_kernels.c - what the handles are that a server launches: name, parameters, the row that reads them. A fixed table without a lock.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A module that was unloaded may have left its handles to another, whose kernels have other parameters: a handle is known together with the name. All
 * are forgotten at each arm. */
#include <string.h>
#include <sys/mman.h>

#include "recorder/tap/gpu/gpu_parts.h"

#define KERNELS 8192u

static struct tap_cuda_kernel *table;

bool tap_cuda_kernels_clear(void)
{
    size_t bytes = KERNELS * sizeof *table;

    if (table)
        return !madvise(table, bytes, MADV_DONTNEED); /* private and anonymous: reads as zero, and gives the memory back */
    table = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED)
        table = NULL;
    return table != NULL;
}

/* A launched handle may be a CUkernel in disguise: that is asked first. */
static int read_params(void *handle, struct td_gpu_param *p)
{
    int (*const ask[])(void *, size_t, size_t *, size_t *) = {tap_driver.kernel_param_info, tap_driver.func_param_info};
    size_t offset, size;
    int i, n = 0;

    for (i = 0; i < 2 && !n; i++)
        while (ask[i] && n < TD_GPU_PARAMS && !ask[i](handle, (size_t)n, &offset, &size)) {
            if (offset > UINT32_MAX || size > UINT32_MAX)
                return 0;
            p[n++] = (struct td_gpu_param){(uint32_t)offset, (uint32_t)size};
        }
    return n;
}

void tap_cuda_kernel_describe(struct tap_cuda_kernel *k, void *handle, const char *symbol)
{
    bool known = false;

    strcpy(k->symbol, symbol);
    if (symbol[0])
        td_gpu_adapter_find(k->symbol, NULL, 0, &known);
    if (known) {
        k->n_params = tap_driver.named_params ? tap_driver.named_params(symbol, k->params) : read_params(handle, k->params);
        k->row = td_gpu_adapter_find(k->symbol, k->params, k->n_params, NULL);
    }
    atomic_store_explicit(&k->ready, true, memory_order_release);
}

struct tap_cuda_kernel *tap_cuda_kernel_of(void *handle, const char *symbol)
{
    unsigned i = (unsigned)(((uintptr_t)handle >> 4) * 0x9e3779b97f4a7c15u >> 40), tries;

    if (!symbol || strnlen(symbol, TAP_SYMBOL) == TAP_SYMBOL)
        symbol = "";                  /* a name that was cut is another name */
    for (tries = 0; tries < 64; tries++, i++) {
        struct tap_cuda_kernel *k = &table[i % KERNELS];
        void *there = atomic_load_explicit(&k->handle, memory_order_acquire);

        if (!there && atomic_compare_exchange_strong(&k->handle, &there, handle)) {
            tap_cuda_kernel_describe(k, handle, symbol);
            return k;
        }
        if (there == handle && !atomic_load_explicit(&k->ready, memory_order_acquire))
            return NULL;              /* another thread is describing it: this launch is nobody's */
        if (there == handle && !strcmp(k->symbol, symbol))
            return k;
    }
    return NULL;
}

struct tap_cuda_kernel *tap_cuda_kernel_at(unsigned i, bool *used)
{
    if (!table || i >= KERNELS)
        return NULL;
    *used = atomic_load_explicit(&table[i].ready, memory_order_acquire);
    return &table[i];
}
