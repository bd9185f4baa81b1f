/* fuzz_uncompress.c - fuzz the decoders of compressed bodies: no crash, bounded output and memory, and the same text
 * whatever pieces the bytes come in.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An input is the coding (1 byte), the length of the pieces (1 byte; 0: all at once), and the compressed bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz_main.h"
#include "wire/uncompress.h"

#define MAX_MEMORY ((size_t)36 << 20) /* brotli's window of 16 MiB, twice while it grows */

struct text { uint64_t hash; int64_t n; };

static void check(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "fuzz_uncompress: %s\n", what);
        abort();
    }
}

/* Byte by byte, so that it does not matter where a piece ends. */
static void take(void *arg, const char *bytes, size_t n)
{
    struct text *t = arg;
    size_t i;

    check(n > 0, "a piece without bytes");
    for (i = 0; i < n; i++)
        t->hash = (t->hash ^ (uint8_t)bytes[i]) * UINT64_C(1099511628211);
    t->n += (int64_t)n;
}

/* Returns what it came to; *whole: may it end here? */
static int run(enum td_coding coding, const uint8_t *data, size_t n, size_t piece, struct text *t, bool *whole)
{
    struct td_uncompress *u;
    size_t at, len;
    int rc = TD_OK;

    check(td_uncompress_new(coding, &u) == TD_OK, "no memory");
    for (at = 0; at < n; at += len) {
        len = piece && piece < n - at ? piece : n - at;
        rc = td_uncompress_feed(u, data + at, len, take, t);
        check(td_uncompress_memory(u) <= MAX_MEMORY, "too much memory");
        check(t->n <= TD_UNCOMPRESS_FLOOR || t->n <= (int64_t)(at + len + 1) * TD_UNCOMPRESS_MAX_RATIO, "too much text");
    }
    *whole = td_uncompress_is_whole(u);
    check(!rc || !*whole, "whole, and failed");
    check(rc == td_uncompress_feed(u, "", 0, take, t), "it failed, and then it did not");
    td_uncompress_free(u);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct text all = {0, 0}, pieces = {0, 0};
    bool all_whole, pieces_whole;
    enum td_coding coding;
    int rc, rc_pieces;

    if (n < 2)
        return 0;
    coding = (enum td_coding)(TD_CODING_GZIP + data[0] % 4);
    if (!td_coding_is_read(coding))
        return 0;
    rc = run(coding, data + 2, n - 2, 0, &all, &all_whole);
    rc_pieces = run(coding, data + 2, n - 2, data[1], &pieces, &pieces_whole);
    if (rc == TD_ELIMIT || rc_pieces == TD_ELIMIT) /* by what came so far */
        return 0;
    if (coding == TD_CODING_ZSTD && rc != rc_pieces) /* a frame that is there as a whole libzstd reads by another way, which finds other damage */
        return 0;
    check(rc == rc_pieces, "pieces fail otherwise");
    check(all_whole == pieces_whole, "pieces end otherwise");
    if (!rc)
        check(all.n == pieces.n && all.hash == pieces.hash, "pieces give another text");
    return 0;
}

TD_FUZZ_MAIN("tests/fuzz/corpus/uncompress", 20000)
