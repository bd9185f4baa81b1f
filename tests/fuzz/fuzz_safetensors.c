/* fuzz_safetensors.c - fuzz the reader of safetensors files: no crash, and every byte of a tensor
 * that it returns can be read.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The file ends at a page without access, because the parser of its header is a library that no
 * sanitizer checks. */
#include "common/hash.h"
#include "model/safetensors.h"
#include "tests/fuzz/fuzz_main.h"
#include "tests/unit/kernels/gptq_gemm/gptq_case.h"

static volatile uint64_t all; /* so that every byte is read */

static void read_all(const struct td_safetensors *st)
{
    const struct td_st_tensor *t;
    size_t i;

    for (i = 0; i < td_safetensors_count(st); i++) {
        t = td_safetensors_at(st, i);
        if (t->data)
            all += td_hash64(t->data, t->size_bytes);
        if (!t->data != !t->size_bytes || td_safetensors_find(st, t->name) != t)
            abort();
        td_safetensors_require(st, t->name, TD_DT_F16, 8, 8, &t, NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct guarded file = guarded_new(n, true);
    struct td_error err = {0};
    struct td_safetensors *st;
    int rc;

    memcpy(file.data, data, n);
    rc = td_safetensors_memory(file.data, n, "fuzz", &st, &err);
    if (rc != err.code || !rc != !!st || (rc && !err.msg[0]))
        abort();
    if (!rc)
        read_all(st);
    td_safetensors_close(st);
    munmap(file.map, file.map_size);
    return 0;
}

TD_FUZZ_MAIN("tests/fuzz/corpus/safetensors", 20000)
