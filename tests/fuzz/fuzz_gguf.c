/* fuzz_gguf.c - fuzz the reader of GGUF files (model/gguf.h): no crash, and every byte of a tensor
 * that it returns can be read.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "model/gguf.h"
#include "tests/fuzz/fuzz_main.h"

static volatile uint64_t all; /* so that every byte is read */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct td_error err = {0};
    struct td_gguf *g;
    size_t i;

    if (td_gguf_memory(data, n, "fuzz", &g, &err)) {
        if (!err.code || g)
            abort();
        return 0;
    }
    for (i = 0; i < td_gguf_count(g); i++) {
        const struct td_gguf_tensor *t = td_gguf_at(g, i);

        if (t->data)
            all += td_hash64(t->data, t->bytes);
        if (td_gguf_find(g, t->name) != t)
            abort();
    }
    all += td_gguf_meta(g, "general.name").len;
    td_gguf_close(g);
    return 0;
}

TD_FUZZ_MAIN("tests/fuzz/corpus/gguf", 20000)
