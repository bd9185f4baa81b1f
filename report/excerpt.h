/* excerpt.h - quote a piece of a text on one line, safe for a terminal.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPORT_EXCERPT_H
#define TD_REPORT_EXCERPT_H

#include "common/buf.h"

/* Append to out, in quotes, the bytes of text from `before` bytes before `at` to `after` bytes
 * behind it, widened to whole UTF-8 characters. Control characters become escapes, bad UTF-8 is
 * replaced, "..." stands where the text was cut. */
void td_excerpt(const char *text, size_t len, size_t at, size_t before, size_t after,
                struct td_buf *out);

#endif
