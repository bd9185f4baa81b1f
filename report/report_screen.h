/* report_screen.h - the parts of the first screen of a report.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each part has a number of lines of its own, so that the sum holds whatever the report says. A
 * part that has nothing to say appends nothing. */
#ifndef TD_REPORT_REPORT_SCREEN_H
#define TD_REPORT_REPORT_SCREEN_H

#include "common/buf.h"
#include "common/json.h"

#define TD_SCREEN_INDENT 7      /* columns before the text of a part */
#define TD_SCREEN_LINES 25      /* of a failure */
#define TD_SCREEN_NEXT_LINES 3

int td_screen_count_lines(const struct td_buf *text);

/* Verdict, names, and the figures of answers, ops and speed: two lines. */
void td_screen_add_head(struct td_buf *out, const cJSON *report);
/* The cause, or a line or two for each lane that did not pass: six lines. */
void td_screen_add_why(struct td_buf *out, const cJSON *report);
/* The rule, the shapes that are bad, and where: seven lines. */
void td_screen_add_which(struct td_buf *out, const cJSON *report);
/* The bad op that ran first: two lines. */
void td_screen_add_first(struct td_buf *out, const cJSON *report);
/* The first answer that collapsed, else the first that forks, else the first that has the same
 * tokens and another text: a line of each build's text. */
void td_screen_add_text(struct td_buf *out, const cJSON *report);
/* What was planned and never came; what was accepted, and until when: a line each, also of several
 * reports together. */
void td_screen_add_absent(struct td_buf *out, const cJSON *report);
void td_screen_add_accepted(struct td_buf *out, const cJSON *report);
/* What no lane looked at, also of several reports together: a line; a second one where no more than
 * `max` lines then stand in out. */
void td_screen_add_not_checked(struct td_buf *out, const cJSON *report, int max);
/* Commands, in `max` lines, at most TD_SCREEN_NEXT_LINES; of a command that is too long its words. */
void td_screen_add_next(struct td_buf *out, const cJSON *report, int max);
/* The last line. What does not fit is left out, from the last figure that fits on. */
void td_screen_add_verdict_line(struct td_buf *out, const cJSON *report);

#endif
