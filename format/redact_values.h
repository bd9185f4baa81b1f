/* redact_values.h - find the values of secret headers wherever they come back.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A server that refuses a key may well repeat it. Searched for are values of 8 bytes or more, of headers
 * whose name is a secret's, or that look like a key (20 bytes or more, letters and digits, no blank);
 * with "Bearer X" also X. Others, as "application/json", are words of any message. */
#ifndef TD_FORMAT_REDACT_VALUES_H
#define TD_FORMAT_REDACT_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define TD_REDACT_MAX_VALUES 512

struct td_redact_values {
    char *value[TD_REDACT_MAX_VALUES];
    size_t len[TD_REDACT_MAX_VALUES];
    int n;
};

/* Note the values of headers, "NAME: VALUE", that are worth a search. headers : NULL-terminated, or
 * NULL. TD_ENOMEM, TD_ELIMIT. */
int td_redact_values_init(struct td_redact_values *v, const char *const *headers, struct td_error *err);
void td_redact_values_release(struct td_redact_values *v);
/* Overwrite them in n bytes.
 *   cut : a value may be cut off where s ends
 * Returns the bytes overwritten. */
int64_t td_redact_values_apply(const struct td_redact_values *v, char *s, size_t n, bool cut);
/* How many bytes at the end of s may be the beginning of a value. */
size_t td_redact_values_pending(const struct td_redact_values *v, const char *s, size_t n);

#endif
