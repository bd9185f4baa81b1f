/* report_page.h - the text report in parts: each prints a section, or nothing when there is nothing to say.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_REPORT_PAGE_H
#define TD_DIFFER_REPORT_PAGE_H

#include <stdio.h>

#include "differ/compare.h"

#define TD_PAGE_SHOWN 5 /* of a list, without --verbose */

struct td_page { FILE *out; bool colour, verbose; };

void td_page_title(const struct td_page *p, const char *text);

/* lane_tokens.c */
void td_page_lost(const struct td_page *p, const struct td_weighing *w);
void td_page_collapses(const struct td_page *p, const struct td_weighing *w);
void td_page_forks(const struct td_page *p, const struct td_weighing *w);
void td_page_noise(const struct td_page *p, const struct td_weighing *w);

/* report_scores.c */
void td_page_scores(const struct td_page *p, const struct td_weighing *w);

#endif
