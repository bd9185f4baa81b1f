/* lib_unresolved_kernels.c - a module for gemm_host that calls td_gptq_gemm and td_step in a
 * process where no library but the tap defines them: the tap must return TD_KERNEL_EUNSUPPORTED,
 * not crash.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/abi/td_gptq.h"

int host_gemm(const struct td_gptq_gemm_args *args);
void host_step(const struct td_step_args *args);
void host_delay(int us);

int host_gemm(const struct td_gptq_gemm_args *args)
{
    volatile int status = td_gptq_gemm(args);

    return status;
}

void host_step(const struct td_step_args *args)
{
    td_step(args);
}

void host_delay(int us)
{
    (void)us;
}
