/* log.h - messages for the user, on stderr. Libraries log; they never print results.
 * SPDX-License-Identifier: Apache-2.0
 *
 * TD_LOG=replay:3,diff:1 sets levels per area, TD_LOG=2 for all. 0 errors, 1 warnings (default), 2 information, 3 debug. */
#ifndef TD_COMMON_LOG_H
#define TD_COMMON_LOG_H

#include <stdbool.h>

enum td_log_level { TD_LOG_ERROR, TD_LOG_WARN, TD_LOG_INFO, TD_LOG_DEBUG };

void td_log(enum td_log_level level, const char *area, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
bool td_log_on(enum td_log_level level, const char *area);
/* Set the program's name, which begins each message ("record: warning: ..."). Borrowed for the
 * process's life. */
void td_log_program(const char *name);
/* Is descriptor fd (1 or 2) a terminal that wants colour: NO_COLOR unset, TERM not "dumb"? */
bool td_log_colour(int fd);

#endif
