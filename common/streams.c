/* streams.c - standard input, output and error: taken at the start, flushed at the end.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio_ext.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"

void td_streams_begin(void)
{
    int fd;

    for (fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
            return; /* each open takes the lowest number that is free: this one */
}

/* Is that a pipe or a socket whose other end is closed? errno says so only of the write that met it. */
static bool reader_has_gone(FILE *to)
{
    struct pollfd p = {.fd = fileno(to)};

    return poll(&p, 1, 0) > 0 && p.revents & (POLLERR | POLLHUP);
}

int td_stream_flush(FILE *to, const char *what, struct td_error *err)
{
    int cause;

    errno = 0;
    if ((!__fpending(to) || !fflush(to)) && !ferror(to))
        return TD_OK;
    cause = errno;
    /* An earlier write failed, and its errno is gone: what does another one meet? */
    if (!cause && write(fileno(to), "\n", 1) < 0)
        cause = errno;
    __fpurge(to);
    clearerr(to);
    if (cause == EPIPE || reader_has_gone(to))
        return TD_OK;
    return td_fail(err, TD_EIO, "cannot write %s: %s", what,
                   cause ? strerror(cause) : "a write failed");
}

int td_streams_end(int code)
{
    struct td_error err = {0, ""};
    bool is_result = code == TD_EXIT_OK || code == TD_EXIT_REGRESSED || code == TD_EXIT_INCONCLUSIVE;

    if (!td_stream_flush(stdout, "the output", &err) && close(STDOUT_FILENO) && errno != EBADF)
        td_fail(&err, TD_EIO, "cannot write the output: %s", strerror(errno));
    if (!err.code)
        return code;
    td_log(TD_LOG_ERROR, "output", "%s", err.msg);
    return is_result ? TD_EXIT_BROKEN : code;
}
