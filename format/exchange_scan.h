/* exchange_scan.h - read the line of an exchange without a tree of its numbers.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_EXCHANGE_SCAN_H
#define TD_FORMAT_EXCHANGE_SCAN_H

#include <stdbool.h>

#include "format/records.h"

/* Read a line as td_exchange_write() spells it: the arrays of the answer in place, and the rest by td_exchange_read().
 *   line : [n], and line[n] is a line feed or a NUL
 *   rest : scratch, kept between calls; its maximum is that of a line
 *   out  : overwritten
 * False: the line is spelt in another way, holds damage, or there is no memory for it. Nothing is kept then, and the
 * caller has the whole line read as a tree, which says what is wrong. What is read is the same in both ways. */
bool td_exchange_scan(const char *line, size_t n, struct td_buf *rest, struct td_exchange *out);

#endif
