/* redact_values.h - find the values of secret headers wherever they come back.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A server that refuses a key may well repeat it. Searched for are values of 8 bytes or more, of headers
 * whose name is a secret's, or that look like a key (20 bytes or more, letters and digits, no blank);
 * with "Bearer X" also X, with "Basic X" what X says and its password (the user, where that is empty), what
 * stands in quotes or behind "NAME=" (credentials.h), where it has 8 bytes, and parts of any header that look
 * like a key. Others, as "application/json", are words of any message.
 *
 * Digits alone, fewer than 20, are not looked for within a longer number (within_number.h).
 * A value is found in any spelling of spelling.h, in either case of its letters, in base64 of both
 * alphabets, whatever stands before it there, and in hexadecimal digits. */
#ifndef TD_FORMAT_REDACT_VALUES_H
#define TD_FORMAT_REDACT_VALUES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "format/redact_needles.h"

struct td_redact_values {
    struct td_redact_needles needles; /* the values, each in all its forms */
    pthread_rwlock_t *lock;           /* NULL: no more are learned */
    atomic_bool any;                  /* there are needles: read without the lock */
};

/* Note the values of headers, "NAME: VALUE", that are worth a search. headers : NULL-terminated, or
 * NULL. TD_ENOMEM, TD_ELIMIT. */
int td_redact_values_init(struct td_redact_values *v, const char *const *headers, struct td_error *err);
/* From here on td_redact_values_learn() may add more, while other threads search; of needles, and of
 * their bytes, there may be so many in all. TD_ENOMEM. */
int td_redact_values_open(struct td_redact_values *v, size_t most, size_t most_bytes, struct td_error *err);
/* Add a header, "NAME: VALUE" of n bytes, by the same rules; but a word of less than 20 bytes is none (letters,
 * and "-", "_", ".", "/"), for such keys are made up, and stand in any text; nor is what holds a blank, a control,
 * a quote, a bracket, a brace or a comma, or has a colon at an end: it may stand between the values of any answer.
 * One of more than 2 KiB is looked for in parts of at least 1 KiB: of one that is said back and cut, up to 127
 * bytes of its last part may stay. TD_ELIMIT: there is no room for all of its
 * forms; TD_ENOMEM. */
int td_redact_values_learn(struct td_redact_values *v, const char *header, size_t n, struct td_error *err);
void td_redact_values_release(struct td_redact_values *v);
/* Is there any value? */
bool td_redact_values_any(const struct td_redact_values *v);
/* Overwrite them in n bytes.
 *   cut : a value may be cut off where s ends
 * Returns the bytes overwritten. */
int64_t td_redact_values_apply(const struct td_redact_values *v, char *s, size_t n, bool cut);
/* The same, when more of the text will come.
 *   decided : how many bytes are; those behind may be the beginning of a value */
int64_t td_redact_values_begin(const struct td_redact_values *v, char *s, size_t n, size_t *decided);

#endif
