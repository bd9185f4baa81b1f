/* torch_own_rows.h - rows of operators that the user wrote (--ops FILE), as `record` sent them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_TORCH_TORCH_OWN_ROWS_H
#define TD_RECORDER_TAP_TORCH_TORCH_OWN_ROWS_H

#include "recorder/tap/torch/torch_rows.h"

#pragma GCC visibility push(hidden)

/* Let these rows count from now on, in place of all others of the kind. text NULL: none. Returns
 * NULL, or why not; then none counts. Texts that were seen before cost nothing; at most
 * TAP_OWN_TEXTS (own_texts.h) others are read in the life of a process. Allocates, and frees nothing: calls
 * on other threads may use a row still. From the tap's thread. */
const char *tap_torch_own_set(const char *text, size_t n);

/* What the operator means by a row of the user's; *named: there is one of that name. NULL: there is
 * none, or it does not fit the schema. Any thread, one at a time. */
const struct tap_torch_meaning *tap_torch_own_meaning(const char *name,
                                                      const struct tap_torch_schema *schema,
                                                      bool *named);

/* Row i of those that count; NULL behind the last. */
const struct tap_torch_row *tap_torch_own_at(int i);
/* Say why the row does not fit: "no argument \"x\"". */
void tap_torch_own_say_why(const struct tap_torch_row *row, const struct tap_torch_schema *schema,
                           char *out, size_t size);

#pragma GCC visibility pop
#endif
