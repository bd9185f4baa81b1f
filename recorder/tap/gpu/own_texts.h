/* own_texts.h - files of rows that the user wrote (record --ops), as `record` sent them, read once
 * each.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Operators and kernels are described by one file, and each front makes its own of the rows.
 * Nothing is freed: threads of the server may use a row still. From the tap's thread. */
#ifndef TD_RECORDER_TAP_GPU_OWN_TEXTS_H
#define TD_RECORDER_TAP_GPU_OWN_TEXTS_H

#include <stddef.h>

#include "kernels/adapters/own_rows.h"

#pragma GCC visibility push(hidden)

#define TAP_OWN_TEXTS 16 /* different ones in the life of a process */

/* Read a text, or find it among those that were read: *number, from 0, and its rows. Returns NULL,
 * or why not. Allocates at a text that is new. */
const char *tap_own_text(const char *text, size_t n, int *number, const struct td_own_rows **rows);

#pragma GCC visibility pop
#endif
