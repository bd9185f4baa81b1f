/* hidden.h - what must not be shown: one filter for all that a program prints and reports.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every text from outside is cleaned before it is shown (common/clean.h). There it passes this filter
 * as well, so that no message, table or report needs to think of keys. */
#ifndef TD_COMMON_HIDDEN_H
#define TD_COMMON_HIDDEN_H

#include <stdbool.h>
#include <stddef.h>

#define TD_HIDDEN_MOST ((size_t)64 << 10) /* bytes that a key may have where a text is cut */

/* Overwrites what must not be shown in text[n], at equal length. */
typedef void td_hidden_filter(const void *arg, char *text, size_t n);

/* Set the filter, for the life of the program, before threads are started. arg : borrowed */
void td_hidden_set(td_hidden_filter *filter, const void *arg);
/* Is there one? */
bool td_hidden_is_set(void);
/* A copy of text[n] that may be shown, with a NUL behind, on the heap. NULL: out of memory. */
char *td_hidden_copy(const char *text, size_t n);
/* The first `size` - 1 bytes of text[n], and a NUL, in out. What must not be shown is hidden before the
 * text is cut: the filter knows a whole key, and the beginning of one at the end of a text, but not one
 * that was cut and has other words behind it. */
void td_hidden_cut(char *out, size_t size, const char *text, size_t n);

#endif
