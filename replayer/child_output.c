/* child_output.c - what a build's process writes to stdout and stderr: read as it comes, each line logged once.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/child_output.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/hash.h"
#include "common/hidden.h"
#include "common/log.h"
#include "format/redact_words.h"

#define READ_BYTES 4096
#define STOP_MS 200     /* between two looks at a flag that a signal sets */

void td_child_output_init(struct td_child_output *o, const char *name)
{
    *o = (struct td_child_output){.name = name, .fd = -1};
}

int td_child_output_open(struct td_child_output *o, int *write_end, struct td_error *err)
{
    int ends[2];

    td_child_output_close(o);
    if (pipe2(ends, O_CLOEXEC))
        return td_fail(err, TD_EIO, "pipe: %s", strerror(errno));
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK)) { /* else reading would wait for a child that writes nothing */
        td_fail(err, TD_EIO, "pipe: %s", strerror(errno));
        close(ends[0]);
        close(ends[1]);
        return TD_EIO;
    }
    o->fd = ends[0];
    *write_end = ends[1];
    return TD_OK;
}

void td_child_output_close(struct td_child_output *o)
{
    if (o->fd >= 0)
        close(o->fd);
    o->fd = -1;
    o->len = 0;
    o->in_word = false;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Log a line the first time it comes. A build may write the same line for each of ten thousand ops. */
static void show_line(struct td_child_output *o, const char *line, size_t n)
{
    uint64_t h = td_hash64(line, n);
    enum td_log_level level = o->n_seen < TD_CHILD_LINES_SHOWN ? TD_LOG_WARN : TD_LOG_INFO;
    int i;

    for (i = 0; i < o->n_seen; i++)
        if (o->seen[i] == h)
            return;
    if (o->n_seen < TD_CHILD_LINES_SHOWN)
        o->seen[o->n_seen++] = h;
    td_log(level, "replay", "the %s wrote: %s", o->name, line);
}

/* glibc: "Assertion `x' failed", ggml: "GGML_ASSERT(x) failed", Python: "AssertionError". What comes after
 * one (a backtrace, "Aborted") explains less. */
static bool names_assertion(const char *line)
{
    return strstr(line, "Assert") || strstr(line, "ASSERT") || strstr(line, "assert");
}

/* A build may print its keys: what has the form or the name of one, and what is hidden in all that this
 * program shows. The line goes to the disk as well, as an op's reason. */
static void hide_secrets(struct td_child_output *o)
{
    char *shown;

    td_redact_text(o->line, o->len);
    shown = td_hidden_copy(o->line, o->len);
    if (shown)
        memcpy(o->line, shown, o->len + 1);
    else
        snprintf(o->line, sizeof o->line, "(out of memory)");
    free(shown);
}

static void end_line(struct td_child_output *o)
{
    bool assertion;

    while (o->len && o->line[o->len - 1] == ' ')
        o->len--;
    o->line[o->len] = '\0';
    if (!o->len)
        return;
    hide_secrets(o);
    if (o->len >= TD_CHILD_LINE)
        o->line[o->len = TD_CHILD_LINE - 1] = '\0';
    show_line(o, o->line, o->len);
    assertion = names_assertion(o->line);
    if (assertion || !o->is_assertion) {
        memcpy(o->message, o->line, o->len + 1);
        o->is_assertion = assertion;
    }
    o->len = 0;
}

/* As neither a terminal nor JSON takes any byte. */
static char clean(char c)
{
    return c == '\t' || c == '\r' ? ' ' : c >= ' ' && c <= '~' ? c : '?';
}

static void add_bytes(struct td_child_output *o, const char *bytes, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        const char c = bytes[i] == '\n' ? ' ' : clean(bytes[i]);

        o->in_word &= c != ' ';
        if (bytes[i] == '\n')
            end_line(o);
        else if (o->len + 1 < sizeof o->line)
            o->line[o->len++] = o->in_word ? '*' : c;
    }
}

/* The line may go on, and its last word be the first half of a key that no filter knows: it is hidden where
 * it could be that, and what comes of the word is, too. */
static void end_open_line(struct td_child_output *o)
{
    size_t at = o->len;
    bool digit = false;

    while (at && o->line[at - 1] != ' ')
        digit |= isdigit((unsigned char)o->line[--at]) != 0;
    o->in_word = at < o->len;
    if (digit && o->len - at >= TD_CHILD_KEY)
        memset(o->line + at, '*', o->len - at);
    end_line(o);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* One read. False: nothing is there now, or the pipe has ended. */
static bool read_some(struct td_child_output *o)
{
    char bytes[READ_BYTES];
    ssize_t n;

    if (o->fd < 0)
        return false;
    do
        n = read(o->fd, bytes, sizeof bytes);
    while (n < 0 && errno == EINTR);
    if (n > 0) {
        add_bytes(o, bytes, (size_t)n);
        return true;
    }
    if (n == 0) { /* every writer is gone */
        end_line(o);
        td_child_output_close(o);
    }
    return false;
}

void td_child_output_drain(struct td_child_output *o)
{
    int i;

    for (i = 0; i < 64 && read_some(o); i++) /* a process that never stops writing must not hold us up */
        ;
}

void td_child_output_forget(struct td_child_output *o)
{
    td_child_output_drain(o);
    o->message[0] = '\0';
    o->is_assertion = false;
}

const char *td_child_output_message(struct td_child_output *o)
{
    td_child_output_drain(o);
    if (o->fd >= 0 && o->len)
        end_open_line(o);
    else
        end_line(o); /* a last line without an end */
    return o->message;
}

/* How long to wait at a time, since a signal may come to another thread. */
static int slice_ms(int64_t left, const volatile sig_atomic_t *stop)
{
    if (stop && (left < 0 || left > STOP_MS))
        return STOP_MS;
    return (int)left;
}

int td_child_output_wait(struct td_child_output *o, int sock, int timeout_ms, const volatile sig_atomic_t *stop,
                         struct td_error *err)
{
    int64_t until = td_clock_mono_ns() + (int64_t)timeout_ms * TD_NS_PER_MS;

    for (;;) {
        int64_t left = timeout_ms < 0 ? -1 : (until - td_clock_mono_ns() + TD_NS_PER_MS - 1) / TD_NS_PER_MS;
        struct pollfd p[2] = {{.fd = sock, .events = POLLIN}, {.fd = o->fd, .events = POLLIN}}; /* fd -1 is skipped */
        int n = poll(p, 2, slice_ms(timeout_ms < 0 ? -1 : left > 0 ? left : 0, stop));

        if (n < 0 && errno != EINTR)
            return td_fail(err, TD_EIO, "poll: %s", strerror(errno));
        if (n > 0 && p[1].revents)
            read_some(o);
        if (n > 0 && p[0].revents)
            return TD_OK;
        if (stop && *stop)
            return TD_EINTR;
        if (timeout_ms >= 0 && left <= 0)
            return TD_ETIMEOUT;
    }
}
