/* accept.h - findings that somebody has accepted: leave them out of a verdict, and say so.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An entry excuses the findings of one fixture that it names, until its date, and nothing else: a
 * lane passes when each of its findings is named in an entry and is no worse than it was then, and
 * when the lane says nothing that it did not say then. What was not seen is never excused: a lane
 * that lacks evidence stays inconclusive. */
#ifndef TD_GATE_ACCEPT_H
#define TD_GATE_ACCEPT_H

#include "common/json.h"

/* Apply the entries of a file (gate/accept_file.h) to a report, or to each report of a joined one.
 * Excused lanes pass, and what was accepted stands in the report's `accepted`.
 *   today  : days since 1970-01-01
 *   report : changed; its verdict, headline, exit code and line follow from its lanes
 * TD_ENOMEM. */
int td_accept_apply(const cJSON *file, int64_t today, cJSON *report, struct td_error *err);

/* Add an entry to the file for each report that regressed, or whose tokens alone are inconclusive.
 * Returns how many, or TD_EINVAL: something in it cannot be accepted (broken, or evidence is
 * missing); the error names it. */
int td_accept_add(cJSON *file, const cJSON *report, const char *reason, const char *who,
                  int64_t today, int64_t until, struct td_error *err);

#endif
