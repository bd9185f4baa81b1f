/* lib_unresolved_kernels.c - a module that calls kernels which nobody has loaded.
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
