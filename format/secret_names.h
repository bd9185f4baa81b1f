/* secret_names.h - by which names secrets go: of headers, members, options, variables, parameters.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_SECRET_NAMES_H
#define TD_FORMAT_SECRET_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* Does a value of this name look like a secret? "apiKey", "--api-key", "OPENAI_API_KEY", "x.auth.token",
 * "aws_access_key_id", "sessionCookies", "pat". Words are told apart by case, '-', '_', '.' and blanks. */
bool td_secret_name(const char *s, size_t n);
/* The same for a header, whose name is enough when any of its words is one: "X-Auth-User". */
bool td_secret_header(const char *s, size_t n);

#endif
