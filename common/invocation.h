/* invocation.h - how the user calls our programs, so that messages and help name a command that
 * works when it is typed.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Out of the tree `gate` is called as gate. Installed it is `tapedeck gate`: the driver sets
 * TD_DRIVER=tapedeck, which the programs that it starts pass on to theirs. */
#ifndef TD_COMMON_INVOCATION_H
#define TD_COMMON_INVOCATION_H

#include <stddef.h>

#define TD_DRIVER_NAME "tapedeck"
#define TD_DRIVER_VARIABLE "TD_DRIVER"

/* What stands before a program's name: "tapedeck ", or "". */
const char *td_invocation_prefix(void);
/* Copy text, and write each "{gate}" (or record, replay, differ, fixture) as the user calls it.
 * Returns out; text itself when there is nothing to write, or out is too small. */
const char *td_invocation_expand(const char *text, char *out, size_t n);

#endif
