/* parts.h - read the parts of a report that the renderers share: which reports it holds, its name,
 * figures as words, verdicts of rows.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A report is the JSON document of docs/report-formats.md, of one comparison
 * ("tapedeck-report-3") or of several ("tapedeck-reports-3"). A member that is missing or of
 * another type reads as unknown: a renderer never fails because of what a report holds. */
#ifndef TD_REPORT_PARTS_H
#define TD_REPORT_PARTS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"

/* The report of comparison i of this document, the gravest first; equal ones keep their order. In a
 * document of one, or with an empty list, that is the document itself. NULL: there are no more. */
const cJSON *td_report_part(const cJSON *report, size_t i);
/* What the comparison is called: its baseline's name, in a joined report the one that no other has
 * (report_names.h). Never empty. */
const char *td_report_name(const cJSON *report);
/* A member of a lane, a row or a list, as a string; "" when there is none. */
const char *td_part_str(const cJSON *part, const char *key);
/* The member `key` of an item of a list; key NULL: the item itself, a string. "" when there is
 * none. */
const char *td_part_text(const cJSON *item, const char *key);
/* The name under which the part stands in its object; "" for an item of a list. */
const char *td_part_key(const cJSON *part);

#define TD_FIGURE_MAX 40
/* A figure in words: an integer in full, else three digits ("0.0123", "1.2e+09"); "NaN",
 * "Infinity"; "" when it is unknown. Returns out. */
const char *td_part_figure(const cJSON *part, const char *key, char out[TD_FIGURE_MAX]);
/* The same with all its digits, for programs. */
const char *td_part_number(const cJSON *part, const char *key, char out[TD_FIGURE_MAX]);
/* A share as signed percent, "+2.1 %"; "" when it is unknown. */
const char *td_part_percent(const cJSON *part, const char *key, char out[TD_FIGURE_MAX]);

/* The verdict of a group of ops: "pass" when it was accepted, "regressed" when one is bad, else
 * "inconclusive" when one is undecided or broken, "pass", or "not judged". */
const char *td_part_group_verdict(const cJSON *group);
/* Is the group judged at all? (Ops without a reference are compared for information only.) */
bool td_part_group_is_judged(const cJSON *group);
/* Append the figures of a comparison: "answers equal 47/50, tokens equal 98.1 %; ops bit-equal
 * 2080/2080; speed: kernel time +2.1 %". Nothing for what was not looked at. */
void td_part_add_facts(const cJSON *report, struct td_buf *words);
/* Append what a plan took of the recorded ops: "plan: 412 of 3986 ops, each kernel, shape, M class and
 * layer at least once". Nothing where none was left out. */
void td_part_add_plan(const cJSON *report, struct td_buf *words);
/* Append what was accepted in words: "known since Monday (by ann, until 2026-12-01; applied)". */
void td_part_add_accepted(const cJSON *accepted, struct td_buf *words);
/* Did this lane take part in the verdict? */
bool td_report_asked(const cJSON *report, const char *lane);
/* The sentence that stands for a lane: its headline, else the first of its gravest notes. */
const char *td_part_lane_reason(const cJSON *lane);

#endif
