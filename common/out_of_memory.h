/* out_of_memory.h - did an allocation fail whose failure is easily overlooked?
 * SPDX-License-Identifier: Apache-2.0
 *
 * A tree of cJSON lacks the member that found no memory, and a text of td_buf ends early; both look whole to who
 * reads them next. Each such failure is counted here, and who makes a result that is believed (a fixture, a report,
 * exit 0) asks for the count first. Other allocations are checked where they are made, and not counted. */
#ifndef TD_COMMON_OUT_OF_MEMORY_H
#define TD_COMMON_OUT_OF_MEMORY_H

#include "common/error.h"

/* Allocations of cJSON, td_buf and td_strdup() that have failed in this process so far. */
unsigned td_out_of_memory_count(void);
/* strdup whose failure is counted. s: NULL gives NULL. The caller frees. */
char *td_strdup(const char *s);
/* Count one. */
void td_out_of_memory_note(void);
/* TD_OK, or TD_ENOMEM when one has failed: "WHAT: out of memory; ...", with what can be done. */
int td_out_of_memory_check(const char *what, struct td_error *err);

#endif
