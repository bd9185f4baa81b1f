/* zstd_window.c - decoders of zstd streams whose window counts as memory.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/zstd_window.h"

#include <zstd_errors.h>

#include "common/memory.h"

enum { LOG_MIN = 23, LOG_MAX = 27 }; /* all levels of zstd but --ultra and --long need 8 MiB at most */

static int window_log(void)
{
    const int64_t part = td_memory_max() / TD_MEMORY_RECORD_PART;
    int log = LOG_MIN;

    while (log < LOG_MAX && (int64_t)2 << log <= part)
        log++;
    return log;
}

ZSTD_DCtx *td_zstd_window_decoder(void)
{
    ZSTD_DCtx *z = ZSTD_createDCtx();

    if (z && ZSTD_isError(ZSTD_DCtx_setParameter(z, ZSTD_d_windowLogMax, window_log()))) {
        ZSTD_freeDCtx(z);
        return NULL;
    }
    return z;
}

int td_zstd_window_failed(size_t code, const char *what, struct td_error *err)
{
    switch (ZSTD_getErrorCode(code)) {
    case ZSTD_error_frameParameter_windowTooLarge:
        if (window_log() < LOG_MAX)
            return td_fail(err, TD_ENOMEM, "%s: its zstd window is larger than the %d MiB that it may take; --max-memory "
                                           "SIZE allows more", what, 1 << (window_log() - 20));
        return td_fail(err, TD_ENOMEM, "%s: its zstd window is larger than %d MiB; compress it without --long or --ultra",
                       what, 1 << (LOG_MAX - 20));
    case ZSTD_error_memory_allocation:
        return td_fail(err, TD_ENOMEM, "%s: out of memory for its zstd window", what);
    default:
        return td_fail(err, TD_ECORRUPT, "%s: no zstd stream, or a damaged one: %s", what, ZSTD_getErrorName(code));
    }
}
