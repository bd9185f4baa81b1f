/* report_names.h - what the comparisons of one document are called.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPORT_REPORT_NAMES_H
#define TD_REPORT_REPORT_NAMES_H

#include <cjson/cJSON.h>

#include "common/error.h"

/* Choose a name for each path: the shortest end that no other one has, in whole parts
 * ("int4/model.tdz"). A path that is there twice, or that differs in punctuation alone, gets a number
 * ("model-2"), so that class names of JUnit differ, too.
 *   paths : [n]
 * Returns n strings; the caller frees each, and the array. NULL: out of memory. */
char **td_report_names_choose(const char *const *paths, size_t n);
/* Set the members `name` and `names.old` of each report of this list to such a name, of the path of
 * its fixture. TD_OK, TD_ENOMEM. */
int td_report_names_set(cJSON *reports, struct td_error *err);

#endif
