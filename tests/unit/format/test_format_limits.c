/* test_format_limits.c - every maximum of the format is the one that docs/format.md states.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/fs.h"
#include "format/frames.h"
#include "format/manifest.h"
#include "format/pack.h"
#include "format/records.h"
#include "format/records_json.h"
#include "format/redact.h"

_Static_assert(TD_FRAME_MAX_RAW == 256u << 20 && TD_FRAME_COMMIT_RAW == 1u << 20 && TD_FRAME_HEAD == 56, "docs/format.md, Frames");
_Static_assert(TD_PACK_MAX_RAW == (uint64_t)4 << 30 && TD_PACK_MAX_BLOBS == 1 << 26 && TD_PACK_HEAD == 64 && TD_PACK_TRAILER == 24,
               "docs/format.md, blobs.pack");
_Static_assert(TD_MANIFEST_MAX == 64u << 20, "docs/format.md, manifest.json");
_Static_assert(TD_REC_MAX_TOKENS == 1 << 24 && TD_REC_MAX_TOP == 1024 && TD_REC_MAX_TENSORS == 64 && TD_REC_MAX_LAUNCHES == 4096 && TD_REC_MAX_DIMS == 8,
               "docs/format.md, exchanges, steps and ops");
_Static_assert(TD_OP_MAX_TENSORS == 18 && TD_OP_MAX_ATTRS == 32 && TD_OP_MAX_LAUNCHES == 64 && TD_OP_MAX_ATTR_NAME == 24 && TD_OP_MAX_SYMBOL == 512,
               "docs/format.md, ops");
_Static_assert(TD_OP_MAX_TENSORS <= TD_REC_MAX_TENSORS && TD_OP_MAX_LAUNCHES <= TD_REC_MAX_LAUNCHES, "what is recorded can be read");
_Static_assert(TD_REDACT_HOLD_MAX == 16u << 20 && TD_REDACT_HOLD_ALL_MAX == 128u << 20, "docs/format.md, Redaction");

static void test_documented(void **state)
{
    static const char *const sentences[] = {
        "raw length, at most 256 MiB", "or when 1 MiB of raw bytes", "raw length, at most 4 GiB", "At most 2^26 blobs", "At most 64 MiB",
        "2^24 tokens, 1,024 alternatives, 2^26 pairs", "8 dimensions, 64 inputs, 4,096 launches", "18 inputs, 32 attributes and 64 launches", "at most 16 MiB of a stream and 128 MiB of all",
    };
    struct td_buf b = TD_BUF_INIT(1 << 20);
    size_t i;

    (void)state;
    assert_int_equal(td_fs_read("docs/format.md", 1 << 20, &b, NULL), TD_OK);
    for (i = 0; i < sizeof sentences / sizeof *sentences; i++)
        if (!strstr(b.data, sentences[i])) {
            print_message("docs/format.md does not say \"%s\"\n", sentences[i]);
            fail();
        }
    td_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_documented)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
