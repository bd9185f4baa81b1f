/* redact.h - overwrite what must never reach the disk, at equal length, before it gets there.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Header values, query parameters that look like keys, JSON paths in bodies and SSE events. A stream's bytes are held back
 * until what is needed to judge them is complete (a header line, an SSE line, a whole body); over a bound they are overwritten
 * entirely and counted as such. Strings keep their length, raw and decoded; digits become 1; true becomes null. */
#ifndef TD_FORMAT_REDACT_H
#define TD_FORMAT_REDACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "format/records.h"

#define TD_REDACT_HOLD_MAX (16u << 20)        /* bytes of one stream held back */
#define TD_REDACT_HOLD_ALL_MAX (128u << 20)   /* of all streams together */
#define TD_REDACT_MAX_PATHS 64
#define TD_REDACT_MAX_PARTS 16                /* of a path */

struct td_redaction;

/* ---- JSON text, in place ---- */

struct td_redact_part { char *name; bool any, deep; };      /* name NULL: [*]; any: one component, whatever it is */
struct td_redact_path { struct td_redact_part part[TD_REDACT_MAX_PARTS]; int n; };
struct td_redact_rules {
    struct td_redact_path path[TD_REDACT_MAX_PATHS];
    int n_paths;
    bool no_text;         /* and every string that is text: docs/format.md, "Redaction", lists the names */
    bool no_errors;       /* no_text spares "error", "message" and "detail" */
};

/* "messages[*].content", "a.b[0]", "**.token" (at any depth). TD_EINVAL with the reason. */
int td_redact_path_parse(struct td_redact_path *p, const char *text, struct td_error *err);
void td_redact_path_release(struct td_redact_path *p);
/* Overwrite in n bytes of JSON. Returns the bytes overwritten, or TD_ECORRUPT: no JSON (then text is as it was). */
int64_t td_redact_json(const struct td_redact_rules *rules, char *text, size_t n);
/* The same for the line of an exchange (compact, as td_exchange_write makes it): the rules' paths begin anew below "request".
 * answers: overwrite text and token_text whatever the rules say; error: and the sentence in "error". */
int64_t td_redact_exchange_json(const struct td_redact_rules *rules, bool answers, bool error, char *text, size_t n);
/* Overwrite the values of key, token, api_key, access_token ... after '?' or '&' in any text, and user:password@ in URLs.
 * Returns bytes overwritten. */
int64_t td_redact_query(char *text, size_t n);
/* The same in a command line: "--api-key X", "--api-key=X", "HF_TOKEN=X". before: the word in front of it, or NULL. */
int64_t td_redact_word(const char *before, char *word);

/* ---- streams of wire records ---- */

struct td_redact_counts { int64_t headers, urls, json, unparsed, over_limit; }; /* bytes overwritten, by reason */

struct td_redactor;
typedef int td_redact_emit(void *ctx, const struct td_wire *rec); /* rec is valid for the call */

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
