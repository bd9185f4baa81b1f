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

#define TD_INVOCATION_FOLDER_MAX 1024

/* Note by which path this program was called, argv[0]: its folder stands before the commands that a
 * person is given to copy ("bin/gate", common/shell_command.h), for bin/ need not be in PATH. A
 * program that runs another one on the user's behalf hands the folder on. */
void td_invocation_called(const char *argv0);
/* The folder that was noted, with its slash: "bin/"; "" for a program that was found in PATH, or when the
 * folder's name is too long. */
const char *td_invocation_folder(void);
/* What stands before a program's name: "tapedeck ", or "". */
const char *td_invocation_prefix(void);
/* Copy text, and write each "{gate}" (or record, replay, differ, fixture) as the user calls it.
 * Returns out; text itself when there is nothing to write, or out is too small. */
const char *td_invocation_expand(const char *text, char *out, size_t n);

#endif
