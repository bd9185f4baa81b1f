/* lib_stub_kernels.c - a kernel library with results that gemm_host can check at once: c[i][j] =
 * a[i][j % k] + qweight[0][j], modulo 2^16.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The host_* functions call the kernels from inside this library, as a module of a server would.
 * The library may be opened RTLD_LOCAL: its functions are then not in the global scope. */
#include <time.h>

#include "kernels/abi/td_gptq.h"

int host_gemm(const struct td_gptq_gemm_args *args);
void host_step(const struct td_step_args *args);
void host_delay(int us);

static _Atomic int delay_us;

int td_gptq_gemm(const struct td_gptq_gemm_args *g)
{
    int32_t i, j;

    if (g->bits != 4)
        return TD_KERNEL_EUNSUPPORTED;
    if (delay_us) {
        struct timespec t = {delay_us / 1000000, delay_us % 1000000 * 1000L};

        nanosleep(&t, NULL);
    }
    for (i = 0; i < g->m; i++)
        for (j = 0; j < g->n; j++)
            g->c[i * g->ldc + j] = (uint16_t)(g->a[i * g->lda + j % g->k] + g->qweight[j]);
    return TD_KERNEL_OK;
}

const char *td_kernels_build(void)
{
    return "stub kernels 1";
}

void td_step(const struct td_step_args *args)
{
    (void)args;
}

int host_gemm(const struct td_gptq_gemm_args *args)
{
    volatile int status = td_gptq_gemm(args); /* no tail call: the return address lies in this library */

    return status;
}

void host_step(const struct td_step_args *args)
{
    td_step(args);
}

void host_delay(int us)
{
    delay_us = us;
}
