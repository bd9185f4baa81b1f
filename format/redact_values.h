/* redact_values.h - find the values of secret headers wherever they come back.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A server that refuses a key may well repeat it. Searched for are values of 8 bytes or more, of headers
 * whose name is a secret's, or that look like a key (20 bytes or more, letters and digits, no blank);
 * with "Bearer X" also X, with "Basic X" what X says and its password, what stands in quotes or behind
 * "NAME=" (credentials.h), where it has 8 bytes, and parts of any header that look like a key. Others, as
 * "application/json", are words of any message.
 *
 * A value is found in any spelling of spelling.h, in either case of its letters, in base64 of both
 * alphabets, whatever stands before it there, and in hexadecimal digits. */
#ifndef TD_FORMAT_REDACT_VALUES_H
#define TD_FORMAT_REDACT_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* What is looked for: a value in one of its forms. */
struct td_redact_needle {
    uint8_t *c;               /* [n], characters of td_spelled(), where OTHER stands for a run; or bytes */
    size_t n;
    bool bytes;               /* as they are, and not in another spelling */
    int next;                 /* the next one that begins with the same character; -1: none */
};
struct td_redact_values {
    struct td_redact_needle *needle; size_t n, cap;
    int head[256];            /* the first needle that begins with this character; -1: none */
    uint8_t pair[2][256][32]; /* bit b of [i][a]: in some needle, in some spelling, a and b may be the bytes i and i + 1 */
};

/* Note the values of headers, "NAME: VALUE", that are worth a search. headers : NULL-terminated, or
 * NULL. TD_ENOMEM, TD_ELIMIT. */
int td_redact_values_init(struct td_redact_values *v, const char *const *headers, struct td_error *err);
void td_redact_values_release(struct td_redact_values *v);
/* Overwrite them in n bytes.
 *   cut : a value may be cut off where s ends
 * Returns the bytes overwritten. */
int64_t td_redact_values_apply(const struct td_redact_values *v, char *s, size_t n, bool cut);
/* The same, when more of the text will come.
 *   decided : how many bytes are; those behind may be the beginning of a value */
int64_t td_redact_values_begin(const struct td_redact_values *v, char *s, size_t n, size_t *decided);

#endif
