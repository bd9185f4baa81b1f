/* server_log.c - the output of the server that `record --run` starts.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/server_log.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "format/redact_values.h"
#include "format/redact_words.h"

#define SHOWN_LINES 12
#define SHOWN_BYTES 1500

static int choose_path(struct td_server_log *l, const char *asked, const char *out,
                       struct td_error *err)
{
    char stamp[32];
    int n;

    l->by_default = !asked;
    td_clock_stamp(td_clock_wall_ns(), stamp, sizeof stamp);
    if (asked)
        n = snprintf(l->path, sizeof l->path, "%s", asked);
    else if (out)
        n = snprintf(l->path, sizeof l->path, "%.*s.server.log",
                     (int)(strlen(out) - (strlen(out) > 1 && out[strlen(out) - 1] == '/')), out);
    else
        n = snprintf(l->path, sizeof l->path, "fixtures/server-%s.log", stamp);
    return n < (int)sizeof l->path ? TD_OK
                                   : td_fail(err, TD_ELIMIT, "%.100s...: path too long", l->path);
}

/* Open OUT.server.log, whose name anybody can guess who may write to that folder. A file that is
 * there is written over if it is an earlier log: a plain file of ours, and of no other name. */
static int open_default(const char *path, struct td_error *err)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK,
                        0600);
    const char *what = NULL;
    struct stat st;

    if (fd < 0)
        what = errno == ELOOP ? "is a link" : errno == ENXIO ? "is no file" : strerror(errno);
    else if (fstat(fd, &st))
        what = strerror(errno);
    else if (!S_ISREG(st.st_mode))
        what = "is no file";
    else if (st.st_uid != geteuid())
        what = "is somebody else's";
    else if (st.st_nlink != 1)
        what = "has another name as well (a hard link)";
    else if (fchmod(fd, 0600) || ftruncate(fd, 0) || fcntl(fd, F_SETFL, O_APPEND))
        what = strerror(errno);
    if (!what)
        return fd;
    if (fd >= 0)
        close(fd);
    return td_fail(err, TD_EIO,
                   "%s: cannot write the server's output there: %s; remove it, or name another file "
                   "with --server-log",
                   path, what);
}

/* Open the file that the user named: whatever it is, and as the umask says. */
static int open_asked(const char *path, struct td_error *err)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666);

    return fd >= 0 ? fd
                   : td_fail(err, TD_EIO,
                             "%s: cannot write the server's output there: %s; name another file with "
                             "--server-log",
                             path, strerror(errno));
}

int td_server_log_open(struct td_server_log *l, const char *asked, const char *out,
                       struct td_error *err)
{
    int rc;

    *l = (struct td_server_log){.fd = -1};
    if (asked && !strcmp(asked, "-"))
        return TD_OK;
    rc = choose_path(l, asked, out, err);
    if (!rc && l->by_default)
        rc = td_fs_mkdirs_above(l->path, err);
    if (rc)
        return rc;
    rc = l->by_default ? open_default(l->path, err) : open_asked(l->path, err);
    if (rc < 0) {
        l->path[0] = '\0';
        return rc;
    }
    l->fd = rc;
    return TD_OK;
}

/* Where the last lines begin. */
static const char *last_lines(const char *text, size_t n)
{
    const char *p = text + n;
    int lines = 0;

    while (p > text && (p == text + n || p[-1] != '\n' || ++lines < SHOWN_LINES))
        p--;
    return p;
}

static size_t first_word(const char *text, size_t n)
{
    size_t i;

    for (i = 0; i < n && !isspace((unsigned char)text[i]); i++)
        ;
    return i;
}

static void hide_secrets(const struct td_server_log *l, char *text, size_t n)
{
    struct td_redact_values values;

    if (td_redact_values_init(&values, l->headers, NULL))
        memset(text, '*', n);
    td_redact_values_apply(&values, text, n, true);
    td_redact_values_release(&values);
    td_redact_text(text, n);
}

static void print_lines(const struct td_server_log *l, char *text, size_t n)
{
    while (n && (text[n - 1] == '\n' || text[n - 1] == '\r'))
        n--;
    if (n && l->no_text) {
        td_log(TD_LOG_WARN, "record", "what the server wrote is in %s (--no-text: it is not shown)", l->path);
        return;
    }
    hide_secrets(l, text, n);
    td_log(TD_LOG_WARN, "record", n ? "the server's last lines (%s):" : "the server wrote nothing (%s)",
           l->path);
    if (td_log_on(TD_LOG_WARN, "record"))
        td_log_quote(text, n);
}

void td_server_log_show(struct td_server_log *l)
{
    char text[SHOWN_BYTES];
    const char *from;
    struct stat st;
    ssize_t n;
    int fd;

    if (!*l->path || l->shown)
        return;
    l->shown = true;
    /* by its name only where the user gave that: at ours something else may stand by now */
    fd = l->by_default ? fcntl(l->fd, F_DUPFD_CLOEXEC, 3) : open(l->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return;
    n = fstat(fd, &st) ? 0
                       : pread(fd, text, sizeof text,
                               st.st_size > (off_t)sizeof text ? st.st_size - (off_t)sizeof text : 0);
    close(fd);
    n = n < 0 ? 0 : n;
    if (n == (ssize_t)sizeof text && st.st_size > n) /* the first word may be the end of a key */
        memset(text, '*', first_word(text, sizeof text));
    while (n > 0 && text[n - 1] == '\n')
        n--;
    from = last_lines(text, (size_t)n);
    print_lines(l, text + (from - text), (size_t)n - (size_t)(from - text));
}

void td_server_log_close(struct td_server_log *l)
{
    struct stat st;

    if (!*l->path)
        return;
    if (l->by_default && l->fd >= 0 && !fstat(l->fd, &st) && S_ISREG(st.st_mode) && !st.st_size)
        unlink(l->path);
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
    l->path[0] = '\0';
}
