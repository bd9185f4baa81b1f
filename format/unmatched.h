/* unmatched.h - which rules of redaction matched nothing in a finished fixture.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_UNMATCHED_H
#define TD_FORMAT_UNMATCHED_H

#include "common/buf.h"

/* Write the rules among `names` that matched nothing, by the manifest of the fixture at dir: "path a.b,
 * header X-Team". Nothing is written when all did, or the manifest cannot be read.
 *   kind  : "path" or "header"
 *   names : as they were given, NULL-terminated */
void td_redaction_unmatched(const char *dir, const char *kind, const char *const *names, struct td_buf *out);

#endif
