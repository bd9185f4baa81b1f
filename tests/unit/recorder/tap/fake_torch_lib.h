/* fake_torch_lib.h - open tests/helpers/lib_fake_torch.so, as Python opens a module.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_UNIT_RECORDER_TAP_FAKE_TORCH_LIB_H
#define TD_TESTS_UNIT_RECORDER_TAP_FAKE_TORCH_LIB_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "recorder/tap/torch/tap_torch_tensor.h"

/* Its handle, for dlsym(); NULL: it cannot be opened. */
static inline void *fake_torch_lib(void)
{
    const char *o = getenv("O");
    char path[512];

    snprintf(path, sizeof path, "%s/tests/helpers/lib_fake_torch.so", o ? o : "build");
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* The set-up of a test that reads calls, and makes none. */
static inline int fake_torch_setup(void **state)
{
    void *lib = fake_torch_lib();

    (void)state;
    return !lib || !tap_torch_ready(dlsym(lib, "fake_torch_call"));
}

#endif
