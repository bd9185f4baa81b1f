/* redact_json.h - overwrite values inside JSON text at equal length.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_REDACT_JSON_H
#define TD_FORMAT_REDACT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define TD_REDACT_MAX_PATHS 64
#define TD_REDACT_MAX_PARTS 16                /* of a path */
#define TD_REDACT_KEY_MAX 64                  /* bytes of a name that are compared, with the end */

/* One component of a path. */
struct td_redact_part {
    char *name;           /* a member of this name; NULL without any and deep: an array's element */
    bool any;             /* "*": one component, a member or an element */
    bool deep;            /* "**": any number of components; only as the first part */
};
struct td_redact_path { struct td_redact_part part[TD_REDACT_MAX_PARTS]; int n; };
struct td_redact_rules {
    struct td_redact_path path[TD_REDACT_MAX_PATHS];
    int n_paths;
    bool no_text;         /* also all that harmless.def does not list */
};

/* Parse "messages[*].content", "a.b[0]" or "**.token" (at any depth). TD_EINVAL. */
int td_redact_path_parse(struct td_redact_path *p, const char *text, struct td_error *err);
void td_redact_path_release(struct td_redact_path *p);
/* Overwrite values in n bytes of JSON. Returns how many bytes, or TD_ECORRUPT: no JSON, and text is
 * unchanged.
 *   hits : [n_paths] to which the values are added that each path matched, or NULL */
int64_t td_redact_json(const struct td_redact_rules *rules, int64_t *hits, char *text, size_t n);
/* The same for the line of an exchange (compact, from td_exchange_write()), where paths begin anew
 * below "request".
 *   answers : also overwrite text and token_text
 *   error   : the sentence in "error" is the server's: overwrite it, too, but for harmless words */
int64_t td_redact_exchange_json(const struct td_redact_rules *rules, bool answers, bool error, char *text, size_t n);

#endif
