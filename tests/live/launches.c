/* launches.c - a library for a real server that writes the launches of its GEMM kernels to a file,
 * as the driver gets them: symbol, geometry, and each parameter's offset, size and bytes. Stage
 * `launches` of vllm_gpu.sh builds it and loads it in place of the tap;
 * tests/unit/kernels/adapters/test_gpu_launches.c reads the file. Case 066 runs it on the fake
 * driver.
 * SPDX-License-Identifier: Apache-2.0
 *
 * TD_LAUNCHES=FILE: the file. The first launch of each kernel and grid appends one line:
 *     SYMBOL X,Y,Z x,y,z SHARED_BYTES OFFSET+SIZE=HEX ...
 * X,Y,Z is the grid, x,y,z the block, SHARED_BYTES the dynamic shared memory; HEX are the bytes in
 * memory's order. Only the parameters' bytes are written. The gaps between them hold old bytes of
 * the server's stack. */
#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 256                      /* kernels and grids, later ones are not written; 4 layers have 35 */

struct launch { CUfunction function; unsigned grid[3], block[3], shared; void **params; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { char *symbol; unsigned grid[3]; } seen[MOST];
static int n_seen;
static CUresult (*info_of_kernel)(CUkernel, size_t, size_t *, size_t *), (*info_of_function)(CUfunction, size_t, size_t *, size_t *);

static bool is_new(const char *symbol, const unsigned *grid)
{
    int i;

    for (i = 0; i < n_seen; i++)
        if (!strcmp(seen[i].symbol, symbol) && !memcmp(seen[i].grid, grid, sizeof seen[i].grid))
            return false;
    if (n_seen == MOST || !(seen[n_seen].symbol = strdup(symbol)))
        return false;
    memcpy(seen[n_seen++].grid, grid, sizeof seen->grid);
    return true;
}

static void put_params(FILE *f, const struct launch *l)
{
    size_t i, k, at, size;

    for (i = 0; !info_of_kernel((CUkernel)l->function, i, &at, &size) || !info_of_function(l->function, i, &at, &size); i++) {
        fprintf(f, " %zu+%zu=", at, size);
        for (k = 0; k < size && size <= 8; k++) /* a larger parameter is a struct with gaps of its own */
            fprintf(f, "%02x", ((const unsigned char *)l->params[i])[k]);
    }
}

static void put(const char *symbol, const struct launch *l)
{
    FILE *f = fopen(getenv("TD_LAUNCHES"), "a");

    if (!f)
        return;
    fprintf(f, "%s %u,%u,%u %u,%u,%u %u", symbol, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2], l->shared);
    put_params(f, l);
    fputc('\n', f);
    fclose(f);
}

static void on_call(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
    const CUpti_CallbackData *d = data;
    struct launch l;

    (void)user, (void)domain;
    if (d->callbackSite != CUPTI_API_ENTER || !d->symbolName || (!strstr(d->symbolName, "gptq") && !strstr(d->symbolName, "exllama") && !strstr(d->symbolName, "6Marlin")))
        return;
    if (id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx) {
        const cuLaunchKernelEx_params *p = d->functionParams;

        l = (struct launch){p->f, {p->config->gridDimX, p->config->gridDimY, p->config->gridDimZ}, {p->config->blockDimX, p->config->blockDimY, p->config->blockDimZ},
                            p->config->sharedMemBytes, p->kernelParams};
    } else {
        const cuLaunchKernel_params *p = d->functionParams;

        l = (struct launch){p->f, {p->gridDimX, p->gridDimY, p->gridDimZ}, {p->blockDimX, p->blockDimY, p->blockDimZ}, p->sharedMemBytes, p->kernelParams};
    }
    pthread_mutex_lock(&lock);
    if (l.params && is_new(d->symbolName, l.grid))
        put(d->symbolName, &l);
    pthread_mutex_unlock(&lock);
}

int InitializeInjection(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *cupti = dlopen("libcupti.so.13", RTLD_NOW);
    CUptiResult (*subscribe)(CUpti_SubscriberHandle *, CUpti_CallbackFunc, void *), (*enable)(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain, CUpti_CallbackId);
    CUpti_SubscriberHandle me;

    if (!getenv("TD_LAUNCHES") || !driver || !cupti)
        return 1;
    *(void **)&info_of_kernel = dlsym(driver, "cuKernelGetParamInfo");
    *(void **)&info_of_function = dlsym(driver, "cuFuncGetParamInfo");
    *(void **)&subscribe = dlsym(cupti, "cuptiSubscribe");
    *(void **)&enable = dlsym(cupti, "cuptiEnableCallback");
    if (!info_of_kernel || !info_of_function || !subscribe || !enable || subscribe(&me, on_call, NULL))
        return 1;
    enable(1, me, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
    enable(1, me, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx);
    return 1;
}
