/* lib_fake_cuda.c - the fake CUDA driver, libcuda.so.1: its version. All else is in
 * tests/helpers/fake_cuda/, and fake_cuda/fake_cuda.h says what the driver does and how a test
 * steers it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/helpers/fake_cuda/fake_cuda.h"

const char *fake_cuda_version(void);

/* A program that finds this symbol has loaded the fake driver. */
const char *fake_cuda_version(void)
{
    return "fake CUDA 13.0";
}
