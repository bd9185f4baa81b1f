/* harmless.h - what a recording without text keeps of a message: look-ups in harmless.def.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_HARMLESS_H
#define TD_FORMAT_HARMLESS_H

#include <stdbool.h>
#include <stddef.h>

/* What of a member's value is kept; harmless.def says what each means. */
enum td_harmless {
    TD_HARMLESS_NO,           /* not listed */
    TD_HARMLESS_NAME,
    TD_HARMLESS_NUMBER,
    TD_HARMLESS_LABEL,
    TD_HARMLESS_ID,
    TD_HARMLESS_TOKEN,
    TD_HARMLESS_TIME,
    TD_HARMLESS_MAP,
    TD_HARMLESS_TEXT
};

enum td_harmless td_harmless_member(const char *name);
/* Is a string of n bytes, without its quotes, kept as a value of this kind? */
bool td_harmless_string(enum td_harmless kind, const char *s, size_t n);
/* Are numbers and booleans kept as values of this kind? */
bool td_harmless_number(enum td_harmless kind);
bool td_harmless_token_id(const char *s, size_t n);   /* "token_id:17" */
bool td_harmless_header(const char *name, size_t n);  /* any case */
/* Is the value of a listed header kept?
 *   sent : we send it, and did not get it */
bool td_harmless_header_value(const char *name, size_t n_name, const char *value, size_t n, bool sent);
bool td_harmless_event(const char *name, size_t n);
bool td_harmless_reason(const char *text, size_t n);
bool td_harmless_metric_label(const char *name, size_t n);
/* Overwrite the words of a sentence about an error, as it stands in a JSON string or in memory, but for
 * those that are listed and numbers of up to three digits. Its length stays, and so does that of each
 * escape. Returns the bytes overwritten. */
size_t td_harmless_sentence(char *s, size_t n);
/* Is the list in the order that the look-ups need? For the test. */
bool td_harmless_sorted(void);

#endif
