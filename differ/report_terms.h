/* report_terms.h - times of all fixtures in the terms of another tool: for reading, nothing is judged by them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_REPORT_TERMS_H
#define TD_DIFFER_REPORT_TERMS_H

#include "common/json.h"
#include "differ/comparison.h"

/* Write the member `metrics`, if terms were asked for: reads the wire logs again where the terms need it. Frames that
 * cannot be read are counted and left out. TD_OK, or TD_ENOMEM and the like. */
int td_terms_of_sides_write(const struct td_comparison *c, struct td_jw *w, struct td_error *err);

#endif
