/* redact_words.h - overwrite keys and passwords in URLs and command lines.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_REDACT_WORDS_H
#define TD_FORMAT_REDACT_WORDS_H

#include <stddef.h>
#include <stdint.h>

/* Overwrite the values of key, token, api_key, access_token ... after '?' or '&' in any text, and user:password@ in URLs.
 * Returns the bytes overwritten. */
int64_t td_redact_query(char *text, size_t n);
/* Overwrite secrets in a word of a command line: "--api-key X", "--api-key=X", "HF_TOKEN=X".
 *   before : the word in front of it, or NULL */
int64_t td_redact_word(const char *before, char *word);

#endif
