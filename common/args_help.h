/* args_help.h - the text of --help, at most 100 columns wide.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_COMMON_ARGS_HELP_H
#define TD_COMMON_ARGS_HELP_H

#include "common/args.h"

#define TD_HELP_COLUMNS 98

/* Print the whole help on stdout. */
void td_args_help(const struct td_args *args);
/* Print "  LEFT  right", with `right` broken into lines that begin below each other. */
void td_args_help_row(const char *left, const char *right);
/* Print text, its lines broken at TD_HELP_COLUMNS; those that follow begin at column `indent`. */
void td_args_help_text(const char *text, int indent);
/* Print the section about environment variables: what every program reads, and `more` (or NULL). */
void td_args_help_environment(const struct td_arg_env *more);

#endif
