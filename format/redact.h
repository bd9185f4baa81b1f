/* redact.h - overwrite what must never reach the disk, at equal length, before it gets there.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Redacted are header values, query parameters that look like keys, and JSON paths in bodies and
 * SSE events. A stream's bytes are held back until the unit that decides about them (a header line,
 * an SSE line, a body) is complete; a unit over a bound is overwritten entirely, and counted so.
 * Strings keep their length, raw and decoded; digits become 1; true becomes null. */
#ifndef TD_FORMAT_REDACT_H
#define TD_FORMAT_REDACT_H

#include <cjson/cJSON.h>

#include "format/redact_http.h"

struct td_redaction; /* format/fixture.h */
struct td_redactor;

int td_redactor_new(const struct td_redaction *r, struct td_redactor **out,
                    struct td_error *err); /* r NULL: the default headers */
void td_redactor_free(struct td_redactor *r);
/* Redact a record, and emit the records of its stream that are decided, in order. Errors are those
 * of emit, or TD_ENOMEM. */
int td_redactor_wire(struct td_redactor *r, const struct td_wire *rec, td_redact_emit *emit, void *ctx);
/* The recording ends: redact and emit the records that are still held. */
int td_redactor_finish(struct td_redactor *r, td_redact_emit *emit, void *ctx);
/* Redact an exchange's JSON line in place. */
void td_redactor_exchange(struct td_redactor *r, char *line, size_t n);
/* Does a rule of --redact overwrite an answer's text? It is hidden then in all that is derived of it. */
bool td_redact_reaches_text(const char *path);
/* Redact the sentence of an error in place, and a fact (redact_fact.h). Both may be called from any
 * thread, and count nothing.
 *   from_server : the server wrote the sentence, as errors of the kinds http, stream and parse are */
bool td_redactor_is_from_server(const char *error_kind, size_t n);
void td_redactor_error(const struct td_redactor *r, bool from_server, char *error);
cJSON *td_redactor_fact(const struct td_redactor *r, const char *section, const char *key, cJSON *fact);
const struct td_redact_counts *td_redactor_counts(const struct td_redactor *r);
/* Is the value of this header overwritten? */
bool td_redactor_is_secret_header(const struct td_redactor *r, const char *name, size_t n);
const char *const *td_redactor_headers(const struct td_redactor *r);    /* NULL-terminated */
const char *const *td_redactor_paths(const struct td_redactor *r);
bool td_redactor_no_text(const struct td_redactor *r);
/* The rules, "header X-Team" and "path messages[*].content", that were given and matched nothing so
 * far: a new array of strings, or NULL. */
cJSON *td_redactor_unmatched(const struct td_redactor *r);

#endif
