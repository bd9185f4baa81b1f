/* log.c - messages on stderr, levels from TD_LOG.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *program = "tapedeck";

void td_log_program(const char *name)
{
    program = name;
}

static int area_level(const char *area)
{
    const char *s = getenv("TD_LOG");
    size_t n = strlen(area);
    int level = TD_LOG_WARN;

    while (s && *s) {
        if (*s >= '0' && *s <= '9')
            level = *s - '0';
        else if (!strncmp(s, area, n) && s[n] == ':')
            return s[n + 1] - '0';
        s = strchr(s, ',');
        if (s)
            s++;
    }
    return level;
}

bool td_log_on(enum td_log_level level, const char *area)
{
    return (int)level <= area_level(area);
}

void td_log(enum td_log_level level, const char *area, const char *fmt, ...)
{
    static const char *const word[] = {"error: ", "warning: ", "", ""};
    char line[2048];
    va_list ap;
    int n;

    if (!td_log_on(level, area))
        return;
    n = snprintf(line, sizeof line, "%s: %s", program, word[level]);
    va_start(ap, fmt);
    n += vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
    va_end(ap);
    if (n > (int)sizeof line - 2)
        n = (int)sizeof line - 2;
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, (size_t)n) < 0)
        return; /* there is no other place to report to */
}

bool td_log_colour(int fd)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

    return !(no && *no) && term && strcmp(term, "dumb") && isatty(fd);
}
