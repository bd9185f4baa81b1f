/* clean.h - make one clean line of a text that came from outside.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPORT_CLEAN_H
#define TD_REPORT_CLEAN_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"

/* Append text[len] as one line that a terminal, a browser and an editor show as it is: control
 * characters become escapes (\n, \t, \x1b), as do the characters that turn the direction of writing
 * or cannot be seen (\u202e); bytes that are not UTF-8 become U+FFFD; the first
 * character of a command to a CI server (below) becomes \x23. */
void td_clean_bytes(const char *text, size_t len, struct td_buf *out);
/* The same for a string of a report (a NUL in it, coded by json.h, becomes \x00). Of more than max
 * bytes "..." stands for the rest; whole characters are kept. NULL adds nothing. */
void td_clean_line(const char *text, size_t max, struct td_buf *out);
/* The same for JSON, which json[len] is, and stays: the escapes are those of JSON (\u0023, \u0085), and
 * line ends, which stand between its strings only, are kept. Read as JSON it is what it was. */
void td_clean_json(const char *json, size_t len, struct td_buf *out);
/* Does text[len] begin with "##[" or "##vso["? CI servers take these, anywhere in a line of a log,
 * for commands. */
bool td_is_ci_command(const char *text, size_t len);

#endif
