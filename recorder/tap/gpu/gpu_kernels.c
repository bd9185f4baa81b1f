/* gpu_kernels.c - what a launched function handle is: name, parameters, adapter.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A module that was unloaded may have left its handles to another one, whose kernels have other
 * parameters. So a kernel is known by its handle and its name together. */
#include <string.h>
#include <sys/mman.h>

#include "kernels/adapters/adapters.h"
#include "recorder/tap/gpu/gpu_kernels.h"
#include "recorder/tap/gpu/gpu_own_kernels.h"
#include "recorder/tap/gpu/gpu_times.h"

#define KERNELS 8192u                 /* launched in one arm */
#define GRAPH_KERNELS 2048u           /* captured in graphs, in the life of the process */

static struct tap_gpu_kernel *table;
static struct { struct tap_gpu_kernel *table; unsigned n; } captured; /* n: places in use */

static struct tap_gpu_kernel *map_kernels(unsigned n)
{
    void *p = mmap(NULL, n * sizeof *table, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

bool tap_gpu_kernels_clear(void)
{
    if (table)
        /* Private anonymous memory then reads as zero, and is given back. */
        return !madvise(table, KERNELS * sizeof *table, MADV_DONTNEED);
    table = map_kernels(KERNELS);
    return table != NULL;
}

/* ---- describing ------------------------------------------------------------------------------ */

/* A launched handle may be a CUkernel in place of a CUfunction: that is asked first. */
int tap_gpu_kernel_params(void *handle, struct td_gpu_param *p)
{
    int (*const ask[])(void *, size_t, size_t *, size_t *) = {tap_driver.kernel_param_info,
                                                              tap_driver.func_get_param_info};
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

/* Fill in all but the handle; ready is set last. symbol : "" for a name that was cut; name : as the
 * driver gives it, NULL: not known */
static void describe_kernel(struct tap_gpu_kernel *k, void *handle, const char *symbol,
                            const char *name)
{
    bool known = false, own;

    strcpy(k->symbol, symbol);
    k->hash = name && *name ? tap_gpu_symbol_hash(name) : 0;
    if (symbol[0])
        td_gpu_adapter_find(k->symbol, NULL, 0, &known);
    own = symbol[0] && tap_gpu_own_kernel_is(symbol);
    if (known || own) {
        k->n_params = tap_driver.named_params ? tap_driver.named_params(symbol, k->params)
                                              : tap_gpu_kernel_params(handle, k->params);
        k->adapter = own ? tap_gpu_own_kernel_find(symbol, k->params, k->n_params)
                         : td_gpu_adapter_find(k->symbol, k->params, k->n_params, NULL);
    }
    atomic_store_explicit(&k->ready, true, memory_order_release);
}

/* ---- launched kernels ------------------------------------------------------------------------ */

struct tap_gpu_kernel *tap_gpu_kernel_find(void *handle, const char *symbol)
{
    unsigned i = (unsigned)(((uintptr_t)handle >> 4) * 0x9e3779b97f4a7c15u >> 40), tries;
    const char *name = symbol;

    if (!symbol || strnlen(symbol, TAP_SYMBOL) == TAP_SYMBOL)
        symbol = "";                  /* a name that was cut is another name */
    for (tries = 0; tries < 64; tries++, i++) {
        struct tap_gpu_kernel *k = &table[i % KERNELS];
        void *there = atomic_load_explicit(&k->handle, memory_order_acquire);

        if (!there && atomic_compare_exchange_strong(&k->handle, &there, handle)) {
            describe_kernel(k, handle, symbol, name);
            return k;
        }
        if (there == handle && !atomic_load_explicit(&k->ready, memory_order_acquire))
            /* Another thread is describing it: this launch is not recorded. */
            return NULL;
        if (there == handle && !strcmp(k->symbol, symbol))
            return k;
    }
    return NULL;
}

struct tap_gpu_kernel *tap_gpu_kernel_at(unsigned i, bool *used)
{
    if (!table || i >= KERNELS)
        return NULL;
    *used = atomic_load_explicit(&table[i].ready, memory_order_acquire);
    return &table[i];
}

/* ---- captured kernels ------------------------------------------------------------------------ */

bool tap_gpu_graph_kernels_open(void)
{
    if (!captured.table)
        captured.table = map_kernels(GRAPH_KERNELS);
    return captured.table;
}

void tap_gpu_graph_kernels_forget(void)
{
    captured.table = NULL;            /* the parent's; a child that uses CUDA gets its own */
    captured.n = 0;
}

struct tap_gpu_kernel *tap_gpu_graph_kernel_find(void *handle, const char *symbol)
{
    const char *name = symbol;
    unsigned i;

    if (!symbol || strnlen(symbol, TAP_SYMBOL) == TAP_SYMBOL)
        symbol = "";                  /* a name that was cut is another name */
    for (i = 0; i < captured.n; i++)
        if (atomic_load_explicit(&captured.table[i].handle, memory_order_relaxed) == handle &&
            !strcmp(captured.table[i].symbol, symbol))
            return &captured.table[i];
    if (i == GRAPH_KERNELS)
        return NULL;
    atomic_store_explicit(&captured.table[i].handle, handle, memory_order_relaxed);
    describe_kernel(&captured.table[i], handle, symbol, name);
    captured.n++;
    return &captured.table[i];
}

struct tap_gpu_kernel *tap_gpu_graph_kernel_at(unsigned i, bool *used)
{
    if (!captured.table || i >= GRAPH_KERNELS)
        return NULL;
    *used = atomic_load_explicit(&captured.table[i].ready, memory_order_acquire);
    return &captured.table[i];
}
