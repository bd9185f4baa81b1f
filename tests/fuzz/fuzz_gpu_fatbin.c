/* fuzz_gpu_fatbin.c - fuzz the reader of fat binaries and bundles (containers, entries, compressed
 * or not, PTX): no crash, and what it returns lies within the file.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/gpu_image.h"
#include "tests/fuzz/fuzz_main.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    td_fuzz_image(data, n);
    return 0;
}

TD_FUZZ_MAIN("tests/fuzz/corpus/gpu_fatbin", 20000)
