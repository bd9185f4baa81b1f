/* fuzz_frames.c - fuzz the reader of stream files (format/frames.c): no crash, it comes to an end,
 * and every frame that it returns has valid checksums.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "format/bytes.h"
#include "format/frames.h"
#include "tests/fuzz/fuzz_main.h"

static void walk(const uint8_t *data, size_t n)
{
    struct td_frames f;
    size_t calls = 0;
    int rc;

    if (!td_frames_memory(&f, data, n, n & 1 ? 0 : 1, NULL))
        while ((rc = td_frames_next(&f, NULL))) {
            if (rc == 1 && f.raw.len != f.head.raw_len)
                abort();
            if (rc != 1 && rc != TD_ECORRUPT && rc != TD_ETRUNCATED)
                break;
            if (++calls > n + 2) /* each call moves on */
                abort();
        }
    td_frames_close(&f);
}

/* Random bytes never have valid checksums: make the first frame's right, so that what lies
 * behind them is reached. */
static void walk_believed(const uint8_t *data, size_t n)
{
    uint8_t *copy = malloc(n);
    uint32_t comp;

    if (!copy)
        abort();
    memcpy(copy, data, n);
    comp = td_get32(copy + 32);
    if (comp > n - TD_FRAME_HEAD)
        td_put32(copy + 32, comp = (uint32_t)(n - TD_FRAME_HEAD));
    td_put64(copy + 40, td_hash64(copy + TD_FRAME_HEAD, comp));
    td_put64(copy + 48, td_hash64(copy + 8, 40));
    walk(copy, n);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    walk(data, n);
    if (n >= TD_FRAME_HEAD)
        walk_believed(data, n);
    return 0;
}

TD_FUZZ_MAIN("tests/fuzz/corpus/frames", 20000)
