/* answer_checks.h - may what a server sent be an answer at all? Its type, and the mark at its end.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WIRE_ANSWER_CHECKS_H
#define TD_WIRE_ANSWER_CHECKS_H

#include <stdbool.h>
#include <stddef.h>

/* Is this Content-Type JSON, or an event stream? Some servers send none: "" is taken for either. Some call
 * events text/plain.
 *   of_events : the body begins as an event stream does */
bool td_answer_type_fits(const char *content_type, bool of_events);

/* The paths of a server whose streams end with [DONE]. A stream of such a path that ends without it broke
 * off, however whole its HTTP is: a proxy ends a chunked answer in order when the server behind it is
 * gone. A server without [DONE] has it in no answer. */
#define TD_END_MARK_PATHS 8
#define TD_END_MARK_PATH 128
struct td_end_marks { char path[TD_END_MARK_PATHS][TD_END_MARK_PATH]; size_t n; };

/* Note that a stream of this path ended with [DONE]. Beyond TD_END_MARK_PATHS paths, and for one that is
 * too long, nothing is noted. */
void td_end_marks_add(struct td_end_marks *m, const char *path);
bool td_end_marks_has(const struct td_end_marks *m, const char *path);

/* What is said of a stream that broke off. */
#define TD_END_MARK_MISSING "the stream ended in order, but without [DONE], with which other answers of %s end: it broke off"

#endif
