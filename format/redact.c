/* redact.c - stub: passes everything on.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/redact.h"
#include <stdlib.h>
struct td_redactor { struct td_redact_counts c; };
int td_redactor_new(const struct td_redaction *r, struct td_redactor **out, struct td_error *err){(void)r;(void)err;*out=calloc(1,sizeof **out);return 0;}
void td_redactor_free(struct td_redactor *r){free(r);}
int td_redactor_wire(struct td_redactor *r, const struct td_wire *rec, td_redact_emit *emit, void *ctx){(void)r;return emit(ctx,rec);}
int td_redactor_finish(struct td_redactor *r, td_redact_emit *emit, void *ctx){(void)r;(void)emit;(void)ctx;return 0;}
void td_redactor_exchange(struct td_redactor *r, char *line, size_t n){(void)r;(void)line;(void)n;}
const struct td_redact_counts *td_redactor_counts(const struct td_redactor *r){return &r->c;}
const char *const *td_redactor_headers(const struct td_redactor *r){static const char *const n[]={NULL};(void)r;return n;}
const char *const *td_redactor_paths(const struct td_redactor *r){static const char *const n[]={NULL};(void)r;return n;}
bool td_redactor_no_text(const struct td_redactor *r){(void)r;return false;}
int64_t td_redact_query(char *text, size_t n){(void)text;(void)n;return 0;}
int64_t td_redact_word(const char *before, char *word){(void)before;(void)word;return 0;}
