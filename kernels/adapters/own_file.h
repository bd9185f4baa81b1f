/* own_file.h - the file of rows of one's own (own_rows.h), read and checked.
 * SPDX-License-Identifier: Apache-2.0
 *
 * For programs: the tap gets the text by another way. */
#ifndef TD_KERNELS_ADAPTERS_OWN_FILE_H
#define TD_KERNELS_ADAPTERS_OWN_FILE_H

#include "kernels/adapters/own_rows.h"

#pragma GCC visibility push(hidden)

struct td_own_file {
    char text[TD_OWN_FILE_MAX + 1];   /* n bytes */
    size_t n;
    struct td_own_rows rows;
};

/* Read the file at path into *out. False: why[size] holds a sentence, "PATH:LINE: …". */
bool td_own_file_read(const char *path, struct td_own_file *out, char *why, size_t size);

#pragma GCC visibility pop
#endif
