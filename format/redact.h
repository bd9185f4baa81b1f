/* redact.h - overwrite what must never reach the disk, at equal length, before it gets there.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Header values, query parameters that look like keys, JSON paths in bodies and SSE events. A stream's bytes are held back
 * until what is needed to judge them is complete (a header line, an SSE line, a whole body); over a bound they are overwritten
 * entirely and counted as such. Strings keep their length, raw and decoded; digits become 1; true becomes null. */
#ifndef TD_FORMAT_REDACT_H
#define TD_FORMAT_REDACT_H

#include "format/redact_http.h"

struct td_redaction; /* format/fixture.h */
struct td_redactor;

int td_redactor_new(const struct td_redaction *r, struct td_redactor **out, struct td_error *err); /* r NULL: the default headers */
void td_redactor_free(struct td_redactor *r);
/* Take a record; emit what may go, in the order of its stream. Failures are those of emit, or TD_ENOMEM. */
int td_redactor_wire(struct td_redactor *r, const struct td_wire *rec, td_redact_emit *emit, void *ctx);
/* The recording ends: judge and emit what is still held. */
int td_redactor_finish(struct td_redactor *r, td_redact_emit *emit, void *ctx);
/* An exchange's JSON line, in place. */
void td_redactor_exchange(struct td_redactor *r, char *line, size_t n);
const struct td_redact_counts *td_redactor_counts(const struct td_redactor *r);
const char *const *td_redactor_headers(const struct td_redactor *r);    /* NULL-terminated */
const char *const *td_redactor_paths(const struct td_redactor *r);
bool td_redactor_no_text(const struct td_redactor *r);

#endif
