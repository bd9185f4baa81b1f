/* log.h - messages for the user, on stderr. Libraries log; they never print results.
 * SPDX-License-Identifier: Apache-2.0
 *
 * TD_LOG=replay:3,diff:1 sets levels per area, TD_LOG=2 for all. 0 errors, 1 warnings (default), 2
 * information, 3 debug. In a format, "{replay}" is written as the user calls that program
 * (common/invocation.h). */
#ifndef TD_COMMON_LOG_H
#define TD_COMMON_LOG_H

#include <stdbool.h>
#include <stddef.h>

enum td_log_level { TD_LOG_ERROR, TD_LOG_WARN, TD_LOG_INFO, TD_LOG_DEBUG };

void td_log(enum td_log_level level, const char *area, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
bool td_log_on(enum td_log_level level, const char *area);
/* A line that every user should see, although nothing is wrong ("the server writes to ..."). Off
 * with --quiet and with TD_LOG=0. */
void td_log_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Write somebody else's lines to stderr, text[n], a bar before each, cleaned (common/clean.h). */
void td_log_quote(const char *text, size_t n);
/* Names a descriptor, a pipe, to which errors go instead of stderr: gate sets it for a program that
 * writes to a terminal, and says the error itself. Not handed on. */
#define TD_LOG_ERROR_VARIABLE "TD_ERROR_FD"

/* Set the program's name, which begins each message ("record: warning: ..."). Borrowed for the
 * process's life. */
void td_log_program(const char *name);

/* --quiet: no progress and no notes; warnings and errors stay. common/args.h sets it. */
void td_log_set_quiet(bool quiet);
bool td_log_quiet(void);

enum td_log_colours { TD_COLOUR_AUTO, TD_COLOUR_ALWAYS, TD_COLOUR_NEVER };
void td_log_set_colours(enum td_log_colours when); /* --color; common/args.h sets it */
/* Does descriptor fd (1 or 2) want colour? As --color says; by itself: a terminal, NO_COLOR unset,
 * TERM not "dumb". */
bool td_log_colour(int fd);
int td_log_columns(int fd); /* width of the terminal at fd, 0: no terminal, or not known */

/* A line without its end stands on the terminal at stderr (progress): the next message wipes it
 * first. */
void td_log_line_shown(void);
void td_log_line_wipe(void);

#endif
