/* redact_words.h - overwrite keys and passwords in URLs, texts and command lines, at equal length.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_REDACT_WORDS_H
#define TD_FORMAT_REDACT_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Overwrite values after '?' or '&' whose name is a secret's (secret_names.h), and user:password@ in
 * URLs. Returns the bytes overwritten. */
int64_t td_redact_query(char *text, size_t n);
/* The same, and in any text: NAME=VALUE, NAME: VALUE, "NAME": [...], however quoted; what follows Bearer
 * and Basic; what stands beside a secret's name, as ["api_key", "x"]; words that have the form of a
 * well-known key (sk-..., hf_..., ghp_..., AKIA..., a JWT). */
int64_t td_redact_text(char *text, size_t n);
/* Of these only what stands beside a secret's name in a pair of brackets. */
int64_t td_redact_pairs(char *text, size_t n);
/* Is the byte at i the b of Python's b'x' (or u, r), whose quote stands at `quote`? */
bool td_is_string_prefix(const char *s, size_t i, size_t quote);

/* What the words of a command line before this one ask for. Begin with TD_EXPECT_NOTHING. */
enum td_expect { TD_EXPECT_NOTHING, TD_EXPECT_SECRET, TD_EXPECT_SECRETS, TD_EXPECT_VARIABLE, TD_EXPECT_HEADER, TD_EXPECT_USER };

/* Overwrite secrets in the next word of a command line, which may be a command line of its own ("sh -c"):
 * those of td_redact_text, values of options with a secret's name, of -k and -p, of headers (-H), of
 * variables (--env, -e), passwords of -u USER:PASSWORD. */
int64_t td_redact_command_word(enum td_expect *expect, char *word, size_t n);

#endif
