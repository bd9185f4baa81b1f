/* zstd_window.h - decoders of zstd streams whose window counts as memory.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A few bytes of a stream can claim a window of 128 MiB, which the decoder allocates. Here a window
 * takes at most the part of the maximum that one record may take (memory.h), and never more than 128
 * MiB. Frames that are decoded in one call need none: they are not made here. */
#ifndef TD_COMMON_ZSTD_WINDOW_H
#define TD_COMMON_ZSTD_WINDOW_H

#include <stdbool.h>
#include <zstd.h>

#include "common/error.h"

/* A decoder for ZSTD_decompressStream(); ZSTD_freeDCtx() frees it. NULL: out of memory. */
ZSTD_DCtx *td_zstd_window_decoder(void);
/* What a failed call of ZSTD_decompressStream() means: TD_ENOMEM, for the window is larger than it may
 * be, or there is no memory for it; else TD_ECORRUPT.
 *   what : "FILE"; the sentence begins with it */
int td_zstd_window_failed(size_t code, const char *what, struct td_error *err);

#endif
