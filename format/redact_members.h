/* redact_members.h - hide values of secret headers in JSON of our own, and leave its structure as it is.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Whoever sends a captured request chooses what is searched for. It may be a word of our own lines: these
 * must still be read. So names of our members, and values that are ours, are left out, and each string is
 * searched on its own. */
#ifndef TD_FORMAT_REDACT_MEMBERS_H
#define TD_FORMAT_REDACT_MEMBERS_H

#include "format/redact_values.h"

/* Overwrite them in a line of JSON, at equal length. Numbers of "request" become ones.
 *   own : depth down to which names are ours: 1 of an exchange, 2 of a note
 * Returns the bytes overwritten; what is no JSON is searched as any text. */
int64_t td_redact_members(const struct td_redact_values *v, char *line, size_t n, int own);

#endif
