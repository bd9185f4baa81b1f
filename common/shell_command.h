/* shell_command.h - commands that a person copies into a shell.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_COMMON_SHELL_COMMAND_H
#define TD_COMMON_SHELL_COMMAND_H

#include "common/buf.h"

/* Append the word or words that start a program of ours as the user started this one: "bin/fixture",
 * "tapedeck fixture" (td_invocation_called). */
void td_shell_add_program(struct td_buf *command, const char *program);
/* Append a word of a command; a blank before it, unless it is the first. In quotes where a shell
 * would take it apart. */
void td_shell_add_word(struct td_buf *command, const char *word);
/* Append an option and its value; nothing for a value of NULL. */
void td_shell_add_option(struct td_buf *command, const char *option, const char *value);

#endif
