/* fuzz_gpu_msgpack.c - fuzz the readers of MessagePack and of AMD's kernel metadata in it: no
 * crash, the cursor stays inside, and what they return lies within the input.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gpucode/hsaco.h"
#include "kernels/gpucode/msgpack.h"
#include "tests/fuzz/gpu_image.h"
#include "tests/fuzz/fuzz_main.h"

static void walk(const uint8_t *data, size_t n)
{
    struct td_msgpack m = {data, data + n}, skipped = m;
    struct td_msgpack_value v;
    bool ok = td_msgpack_skip(&skipped);

    while (m.p < skipped.p && td_msgpack_next(&m, &v))
        if (v.len)
            td_fuzz_sum += td_hash64(v.str, v.len);
    if (m.p > m.end || skipped.p > skipped.end || (ok && m.p != skipped.p))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct td_gpu_kernel_list list = {0};
    struct td_error err = {0};
    char arch[TD_HSACO_ARCH];
    int rc;
    size_t k;

    walk(data, n);
    rc = td_hsaco_metadata(data, n, &list, arch, &err);
    if (!rc != !err.code || strlen(arch) >= TD_HSACO_ARCH)
        abort();
    for (k = 0; !rc && k < list.n; k++)
        td_fuzz_kernel(&list.kernels[k]);
    td_gpu_kernel_list_release(&list);
    return 0;
}

TD_FUZZ_MAIN("tests/fuzz/corpus/gpu_msgpack", 30000)
