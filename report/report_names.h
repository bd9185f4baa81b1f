/* report_names.h - what the comparisons of one document are called.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPORT_REPORT_NAMES_H
#define TD_REPORT_REPORT_NAMES_H

#include <cjson/cJSON.h>

#include "common/error.h"

/* Set the member `name` of each report of this list: the shortest end of its fixture's path that no
 * other one has, in whole parts ("int4/model.tdz"). A path that is there twice, or that differs in
 * punctuation alone, gets a number ("model-2"), so that class names of JUnit differ, too. TD_OK,
 * TD_ENOMEM. */
int td_report_names_set(cJSON *reports, struct td_error *err);

#endif
