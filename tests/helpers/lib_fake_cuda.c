/* lib_fake_cuda.c - the version of the look-alike of libcuda.so.1; the rest of it is tests/helpers/fake_cuda/.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/helpers/fake_cuda/fake_cuda.h"

const char *fake_cuda_version(void);

/* Tells the look-alike from the real one. */
const char *fake_cuda_version(void)
{
    return "fake CUDA 13.0";
}
