/* fuzz_pack.c - fuzz the reader of blob packs (format/pack.c): no crash, and a blob that is read
 * has the hash that names it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "format/bytes.h"
#include "format/pack.h"
#include "tests/fuzz/fuzz_main.h"

static void read_blobs(struct td_pack *pk)
{
    struct td_error err = {0};
    void *raw;
    size_t n, i;

    for (i = 0; i < pk->index.cap; i++) {
        const struct td_pack_entry *e = &pk->index.slot[i];

        if (e->at == UINT64_MAX || td_pack_read(pk, e->at, &e->hash, UINT64_MAX, &raw, &n, &err))
            continue;
        if (!td_hash_eq(td_hash_bytes(raw, n), e->hash))
            abort();
        free(raw);
    }
}

static void walk(const uint8_t *data, size_t n)
{
    struct td_buf stored = TD_BUF_INIT((size_t)1 << 33);
    struct td_pack_head h;
    struct td_pack pk;
    uint64_t at = 0, frame_at;
    size_t calls = 0;
    int rc;

    if (!td_pack_memory(&pk, data, n, NULL)) {
        read_blobs(&pk);
        while ((rc = td_pack_walk(&pk, &at, &h, &frame_at, &stored, NULL)) == 1 || rc == TD_ECORRUPT || rc == TD_ETRUNCATED)
            if (++calls > n + 2)
                abort();
    }
    td_pack_close(&pk);
    td_buf_release(&stored);
}

/* Make the checksums of the first frame and of the trailer right, so that what lies behind them
 * is reached. */
static void walk_believed(const uint8_t *data, size_t n)
{
    uint8_t *copy = malloc(n), *end = copy + n - TD_PACK_TRAILER;
    uint64_t stored;

    if (!copy)
        abort();
    memcpy(copy, data, n);
    stored = td_get64(copy + 16);
    if (stored > n - TD_PACK_HEAD)
        td_put64(copy + 16, stored = n - TD_PACK_HEAD);
    td_put64(end + 16, td_hash64(end, 16));
    td_put64(copy + 40, td_hash64(copy + TD_PACK_HEAD, stored));
    td_put64(copy + 56, td_hash64(copy, 56));
    walk(copy, n);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    walk(data, n);
    if (n >= TD_PACK_HEAD + TD_PACK_TRAILER)
        walk_believed(data, n);
    return 0;
}

TD_FUZZ_MAIN("tests/fuzz/corpus/pack", 20000)
