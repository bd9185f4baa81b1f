/* own_values.h - the values that keys of a file of own rows may have.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Texts end with NUL, and have no blanks around them. Each function returns false, with a sentence
 * in err->text, when a value is none of its kind. */
#ifndef TD_KERNELS_ADAPTERS_OWN_VALUES_H
#define TD_KERNELS_ADAPTERS_OWN_VALUES_H

#include "kernels/adapters/own_row.h"

#pragma GCC visibility push(hidden)

/* Set err->text. Always false. */
__attribute__((format(printf, 2, 3))) bool td_own_fail(struct td_own_error *err, const char *format, ...);

/* The name of an argument: letters, digits and "_", no digit first. */
bool td_own_read_argument(char out[TD_OWN_WORD], const char *value, struct td_own_error *err);
/* One of these words, which ends in *out. key : for the sentence */
bool td_own_read_word(const char **out, const char *const *words, const char *key, const char *value,
                      struct td_own_error *err);
/* A number of least to most, or the name of an argument. */
bool td_own_read_number(struct td_own_number *out, int64_t least, int64_t most, const char *value,
                        struct td_own_error *err);
/* "true", "3", "0.5", "none", "\"text\"", "zeros I32 128". out->arg is the caller's. */
bool td_own_read_fixed(struct td_own_fixed *out, const char *value, struct td_own_error *err);
/* "a:8 w:8 m:4", the parameters of a kernel, into row->param. */
bool td_own_read_params(struct td_own_row *row, const char *value, struct td_own_error *err);
/* Write the words, with ", " between them, into out. Returns out. */
const char *td_own_list(char *out, size_t size, const char *const *words);

#pragma GCC visibility pop
#endif
