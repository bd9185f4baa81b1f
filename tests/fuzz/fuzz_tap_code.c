/* fuzz_tap_code.c - fuzz the tap's reader of code objects, which runs inside a server whenever its
 * HIP runtime loads code: no crash, and every parameter has a size and a valid offset.
 * SPDX-License-Identifier: Apache-2.0
 *
 * corpus/tap_code holds the code object for gfx90a of tests/unit/data/tap_like.hsaco. */
#include <stdlib.h>

#include "recorder/tap/hip/hip_code.h"
#include "tests/fuzz/fuzz_main.h"
#include "tests/helpers/fake_gptq.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct td_gpu_param params[TD_GPU_PARAMS];
    uint8_t *exact = malloc(n ? n : 1);
    int i, count;

    if (!exact)
        return 0;
    memcpy(exact, data, n);
    tap_hip_code_note(exact, n);
    free(exact);
    count = tap_hip_code_params(FAKE_GPTQ_4BIT(1), params);
    if (count > TD_GPU_PARAMS)
        abort();
    for (i = 0; i < count; i++)
        if (!params[i].size || params[i].offset > UINT32_MAX - params[i].size)
            abort();
    return 0;
}

TD_FUZZ_MAIN("tests/fuzz/corpus/tap_code", 20000)
