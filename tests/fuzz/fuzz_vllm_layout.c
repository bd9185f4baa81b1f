/* fuzz_vllm_layout.c - fuzz the unpacking of vLLM's packed weights (model/vllm_layout.h): they are
 * refused with a sentence, or unpacked so that packing gives the same bytes again.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Input: layout, blocks of outputs, k / 8, groups, k of a block / 4; then the bytes of the arrays,
 * repeated as needed. */
#include <stdlib.h>
#include <string.h>

#include "model/vllm_layout.h"
#include "tests/fuzz/fuzz_main.h"
#include "tests/unit/model/vllm_pack.h"

struct bytes { const uint8_t *data; size_t n, at; };

static void *copy_bytes(struct bytes *b, size_t n)
{
    uint8_t *p = malloc(n ? n : 1);       /* exactly n bytes: a sanitizer sees a read past them */
    size_t i;

    for (i = 0; i < n; i++)
        p[i] = b->data[b->at++ % b->n];
    return p;
}

static unsigned q_of(const void *ctx, int64_t k, int64_t n)
{
    const struct td_gptq_unpacked *w = ctx;

    return w->qweight[k / 8 * w->n + n] >> k % 8 * 4 & 15;
}

static int zero_of(const void *ctx, int64_t g, int64_t n)
{
    const struct td_gptq_unpacked *w = ctx;

    return (int)(w->qzeros[g * (w->n / 8) + n / 8] >> n % 8 * 4 & 15) + w->zero_offset;
}

static uint16_t scale_of(const void *ctx, int64_t g, int64_t n)
{
    const struct td_gptq_unpacked *w = ctx;

    return w->scales[g * w->n + n];
}

static struct pack_in packing(const struct td_gptq_unpacked *w)
{
    return (struct pack_in){w->n, w->k, w->groups, q_of, zero_of, scale_of, w};
}

static void check(int rc, const struct td_error *err)
{
    if (rc != err->code || (rc && !err->msg[0]))
        abort();
}

static void try_int4(struct bytes *b, int64_t n, int64_t k, int64_t groups, int64_t bk)
{
    size_t size = bk && k % bk == 0 ? (size_t)(n / 32 * (k / bk) * (bk * 16 + 128)) : 0, all = (size_t)(n * groups);
    uint8_t *w = copy_bytes(b, size), *again = malloc(size + 1);
    int8_t *zeros = copy_bytes(b, all), *zeros2 = malloc(all + 1);
    float *scales = copy_bytes(b, all * 4), *scales2 = malloc(all * 4 + 1);
    struct td_error err = {0};
    struct td_gptq_unpacked out;
    struct pack_in in;
    int rc = td_vllm_int4_unpack(w, zeros, scales, n, k, groups, bk, &out, &err);

    check(rc, &err);
    if (!rc) {
        in = packing(&out);
        pack_int4(&in, bk, again, zeros2, scales2);
        if (memcmp(w, again, size) || memcmp(zeros, zeros2, all))
            abort();
        td_gptq_unpacked_release(&out);
    }
    free(w), free(again), free(zeros), free(zeros2), free(scales), free(scales2);
}

static void try_wna16(struct bytes *b, int64_t n, int64_t k, int64_t groups)
{
    size_t size = (size_t)(n / 16 * 2 * k) * 4;
    uint32_t *w = copy_bytes(b, size), *zeros = copy_bytes(b, (size_t)(groups * (n / 8)) * 4), *again = malloc(size + 1);
    uint16_t *scales = copy_bytes(b, (size_t)(groups * n) * 2);
    struct td_error err = {0};
    struct td_gptq_unpacked out;
    struct pack_in in;
    int rc = td_vllm_wna16_unpack(w, zeros, scales, TD_DT_BF16, n, k, groups, &out, &err);

    check(rc, &err);
    if (!rc) {
        in = packing(&out);
        pack_wna16(&in, again);
        if (memcmp(w, again, size) || memcmp(scales, out.scales, (size_t)(groups * n) * 2))
            abort();
        td_gptq_unpacked_release(&out);
    }
    free(w), free(zeros), free(scales), free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct bytes b;

    if (n < 6)
        return 0;
    b = (struct bytes){data + 5, n - 5, 0};
    if (data[0] & 1)
        try_wna16(&b, data[1] % 5 * 16, data[2] % 9 * 8, data[3] % 5);
    else
        try_int4(&b, data[1] % 3 * 32, data[2] % 9 * 8, data[3] % 5, data[4] % 17 * 4);
    return 0;
}

TD_FUZZ_MAIN("tests/fuzz/corpus/vllm_layout", 3000)
