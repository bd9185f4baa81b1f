/* header_file.h - headers that are not on the command line, where everybody can see them: -H @FILE.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_COMMON_HEADER_FILE_H
#define TD_COMMON_HEADER_FILE_H

#include "common/args.h"

#define TD_HEADER_FILE_MAX ((size_t)64 << 10)

/* Replace each "@FILE" of a list of headers by the lines of that file; empty ones are left out.
 * What was read stays for the life of the program. /dev/fd/N is read from descriptor N itself, and
 * that is closed: no child inherits it.
 * TD_EINVAL: it cannot be read, is longer than TD_HEADER_FILE_MAX, or holds too many. */
int td_header_file_expand(struct td_arg_list *headers, struct td_error *err);
/* Write headers into memory that has no name. Returns its descriptor, which a child may inherit and
 * read as "@/dev/fd/N"; or TD_EIO. */
int td_header_file_make(const struct td_arg_list *headers, struct td_error *err);

#endif
