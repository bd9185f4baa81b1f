/* secret_names.h - by which names secrets go: of headers, members, options, variables, parameters.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_SECRET_NAMES_H
#define TD_FORMAT_SECRET_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* Does a value of this name look like a secret? "apiKey", "--api-key", "OPENAI_API_KEY", "x.auth.token",
 * "aws_access_key_id", "sessionCookies", "token2", "PGPASSWORD". Words are told apart by case, '-', '_', '.', blanks
 * and digits, which are no part of a word. "max_tokens", "bos_token", "key_cache" are words of a model. */
bool td_secret_name(const char *s, size_t n);
/* The same for a header, whose name is enough when any of its words is one: "X-Auth-User". */
bool td_secret_header(const char *s, size_t n);
/* Is this value such a name, and nothing else? Then what stands beside it is a secret: {"key": "api_key",
 * "value": "x"}, ["api_key", "x"].
 *   named : it is the value of a td_is_naming(), where "key" is such a name, and no word as in ["key", "value"] */
bool td_names_secret(const char *s, size_t n, bool named);
/* Is this the name of a member that names what stands beside it? "name", "key", "k", "header". */
bool td_is_naming(const char *s, size_t n);

#endif
