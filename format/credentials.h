/* credentials.h - the secrets within a header's value: "Bearer X", 'Token token="X"', cookies.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_CREDENTIALS_H
#define TD_FORMAT_CREDENTIALS_H

#include <stdbool.h>
#include <stddef.h>

/* All functions take the value of a header, without blanks at its ends, and n, its bytes. Blanks are
 * those of RFC 9110: any number of spaces and tabs. */

/* Where the key begins behind the scheme: of "Bearer  X" at X. n: it is one word. */
size_t td_credentials_key(const char *s, size_t n);
/* Is the scheme "Basic"? */
bool td_credentials_basic(const char *s, size_t n);

struct td_credential { const char *s; size_t n; };
/* The next value in quotes or behind "NAME=" (blanks may stand beside "="), without its quotes. Left out
 * are parameters that are no secrets, as "realm" and "algorithm".
 *   at : where to go on; 0 at first
 * False: there is none. */
bool td_credentials_next(const char *s, size_t n, size_t *at, struct td_credential *out);

#endif
