/* log.c - messages on stderr, levels from TD_LOG.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clean.h"
#include "common/invocation.h"

static const char *program = "tapedeck";
static bool is_quiet;
static enum td_log_colours colours;
static atomic_bool line_stands;
static int error_fd = -1; /* a pipe to the program that started this one */

/* Take the pipe over: it is not for programs that this one starts. */
static void take_error_fd(void)
{
    const char *text = getenv(TD_LOG_ERROR_VARIABLE);
    const int fd = text ? atoi(text) : -1;
    struct stat st;

    if (fd > STDERR_FILENO && !fstat(fd, &st) && S_ISFIFO(st.st_mode) &&
        !fcntl(fd, F_SETFD, FD_CLOEXEC))
        error_fd = fd;
    unsetenv(TD_LOG_ERROR_VARIABLE);
}

void td_log_program(const char *name)
{
    program = name;
    take_error_fd();
}

void td_log_set_quiet(bool quiet)
{
    is_quiet = quiet;
}

bool td_log_quiet(void)
{
    return is_quiet;
}

void td_log_set_colours(enum td_log_colours when)
{
    colours = when;
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

/* What can be said when there is no memory to clean the message in. */
static void line_without_memory(void)
{
    char line[160];
    int n = snprintf(line, sizeof line, "%.100s: error: out of memory\n", program);

    if (n > 0 && write(STDERR_FILENO, line, (size_t)n) < 0)
        errno = 0; /* there is no other place to report to */
}

/* One write a line, so that lines of several threads and processes do not mix. A message may quote a
 * fixture or a server, so it is cleaned: it can neither begin a line of its own nor move the cursor. */
static void print_line(const char *word, bool is_error, const char *fmt, va_list ap)
{
    char message[2048], expanded[2048];
    struct td_buf line = TD_BUF_INIT(8192);

    vsnprintf(message, sizeof message, td_invocation_expand(fmt, expanded, sizeof expanded), ap);
    td_buf_addf(&line, "%s: %s", program, word);
    td_clean_line(message, sizeof message, &line);
    td_buf_adds(&line, "\n");
    td_log_line_wipe();
    if (is_error && error_fd >= 0 && write(error_fd, line.data, line.len) < 0)
        error_fd = -1;
    if (line.failed)
        line_without_memory();
    else if (!(is_error && error_fd >= 0) && write(STDERR_FILENO, line.data, line.len) < 0)
        errno = 0; /* there is no other place to report to */
    td_buf_release(&line);
}

void td_log(enum td_log_level level, const char *area, const char *fmt, ...)
{
    static const char *const word[] = {"error: ", "warning: ", "", ""};
    va_list ap;

    if (!td_log_on(level, area))
        return;
    va_start(ap, fmt);
    print_line(word[level], level == TD_LOG_ERROR, fmt, ap);
    va_end(ap);
}

void td_log_note(const char *fmt, ...)
{
    va_list ap;

    if (is_quiet || !td_log_on(TD_LOG_WARN, program))
        return;
    va_start(ap, fmt);
    print_line("", false, fmt, ap);
    va_end(ap);
}

void td_log_quote(const char *text, size_t n)
{
    struct td_buf lines = TD_BUF_INIT(1 << 20);

    while (n) {
        const char *end = memchr(text, '\n', n);
        const size_t len = end ? (size_t)(end - text) : n;

        td_buf_adds(&lines, "  | ");
        td_clean_bytes(text, len - (len && text[len - 1] == '\r'), &lines);
        td_buf_adds(&lines, "\n");
        text += len + (end != NULL);
        n -= len + (end != NULL);
    }
    td_log_line_wipe();
    if (lines.len && !lines.failed && write(STDERR_FILENO, lines.data, lines.len) < 0)
        errno = 0; /* there is no other place to report to */
    td_buf_release(&lines);
}

bool td_log_colour(int fd)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

    if (colours != TD_COLOUR_AUTO)
        return colours == TD_COLOUR_ALWAYS;
    return !(no && *no) && term && strcmp(term, "dumb") && isatty(fd);
}

int td_log_columns(int fd)
{
    struct winsize w;

    return ioctl(fd, TIOCGWINSZ, &w) ? 0 : w.ws_col;
}

void td_log_line_shown(void)
{
    atomic_store(&line_stands, true);
}

void td_log_line_wipe(void)
{
    static const char wipe[] = "\r\033[K";

    if (atomic_exchange(&line_stands, false) && write(STDERR_FILENO, wipe, sizeof wipe - 1) < 0)
        return;
}
