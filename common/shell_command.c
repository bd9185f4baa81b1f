/* shell_command.c - commands that a person copies into a shell.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/shell_command.h"

#include <stdio.h>
#include <string.h>

#include "common/invocation.h"

void td_shell_add_word(struct td_buf *command, const char *word)
{
    const bool plain = *word && !word[strcspn(word, " \t\n\"'`$\\&|;<>()*?[]#~!{}")];

    if (command->len)
        td_buf_addc(command, ' ');
    if (!plain)
        td_buf_addc(command, '"');
    for (; *word; word++) {
        if (!plain && strchr("\"$`\\", *word))
            td_buf_addc(command, '\\');
        td_buf_addc(command, *word);
    }
    if (!plain)
        td_buf_addc(command, '"');
}

void td_shell_add_option(struct td_buf *command, const char *option, const char *value)
{
    if (!value)
        return;
    td_shell_add_word(command, option);
    td_shell_add_word(command, value);
}

void td_shell_add_program(struct td_buf *command, const char *program)
{
    const bool driven = *td_invocation_prefix() != '\0';
    char first[TD_INVOCATION_FOLDER_MAX + 64];

    snprintf(first, sizeof first, "%s%s", td_invocation_folder(),
             driven ? TD_DRIVER_NAME : program);
    td_shell_add_word(command, first);
    if (driven)
        td_shell_add_word(command, program);
}
