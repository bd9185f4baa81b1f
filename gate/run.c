/* run.c - run the programs beside gate: start, listen to their errors, wait.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gate/run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/header_file.h"
#include "common/log.h"
#include "common/memory.h"
#include "common/proc.h"

volatile sig_atomic_t td_gate_signal;

int td_command_init(struct td_command *c, const char *program, struct td_error *err)
{
    char dir[TD_PATH_MAX];
    int rc = td_fs_self_dir(dir, sizeof dir, err);

    memset(c, 0, sizeof *c);
    if (!rc)
        rc = td_fs_join(c->program, sizeof c->program, dir, program, err);
    if (!rc && access(c->program, X_OK) != 0)
        rc = td_fail(err, TD_ENOTFOUND,
                     "%s is not there: gate needs record, replay and differ beside itself",
                     c->program);
    c->argv[0] = c->program;
    c->argc = 1;
    td_command_opt(c, "--max-memory", td_memory_given());
    return rc;
}

void td_command_add(struct td_command *c, const char *arg)
{
    if (c->argc == TD_RUN_MAX_ARGS) {
        c->failed = true;
        return;
    }
    c->argv[c->argc++] = (char *)(uintptr_t)arg; /* execv's argv is char *const[] for old
                                                    reasons; nobody writes to it */
    c->argv[c->argc] = NULL;
}

void td_command_opt(struct td_command *c, const char *option, const char *value)
{
    if (!value)
        return;
    td_command_add(c, option);
    td_command_add(c, value);
}

/* Have the program read its headers from a descriptor; -1: it has none. */
static int add_headers(struct td_command *c, char option[40], int *fd, struct td_error *err)
{
    *fd = -1;
    if (!c->headers || !c->headers->n)
        return TD_OK;
    *fd = td_header_file_make(c->headers, err);
    if (*fd < 0)
        return TD_EIO;
    snprintf(option, 40, "@/dev/fd/%d", *fd);
    td_command_opt(c, "--header", option);
    return TD_OK;
}

/* ---- listening ------------------------------------------------------------------------------- */

/* The line being read from a program's stderr, and the line that is its cause so far. All lines but
 * errors are copied to our stderr. The last error is kept back: the report says it. */
struct stderr_lines {
    char raw[4096]; size_t len;
    bool is_passed; /* the line is too long to be kept back: its begin was copied */
    bool copy;      /* else the program writes to our stderr itself */
    char *cause; size_t cause_size;
    bool is_error;  /* the cause is an error, and no later line replaces it */
};

static void copy_bytes(const struct stderr_lines *l)
{
    struct td_error none = {0, ""};

    if (l->copy)
        td_fs_write_all(STDERR_FILENO, l->raw, l->len, "stderr", &none);
}

/* Behind what log.c puts in front of an error ("replay: error: "); NULL: it is none. */
static const char *behind_error(const char *text)
{
    const char *error = strstr(text, ": error: ");

    return error && strcspn(text, " ") > (size_t)(error - text) ? error + strlen(": error: ") : NULL;
}

static void say_error(const struct stderr_lines *l)
{
    if (l->is_error)
        td_log(TD_LOG_ERROR, "gate", "%s", l->cause);
}

/* The line is complete: if it is not empty it becomes the cause. An error is replaced by a later error
 * only, which makes it one to be shown. */
static void end_line(struct stderr_lines *l)
{
    char text[sizeof l->raw + 1];
    const char *error;
    size_t i, n = 0;

    for (i = 0; i < l->len; i++)
        if ((unsigned char)l->raw[i] >= 0x20)
            text[n++] = l->raw[i];
    text[n] = '\0';
    error = l->is_passed ? NULL : behind_error(text);
    if (error) {
        say_error(l);
        l->is_error = true;
    } else {
        copy_bytes(l);
    }
    if ((error || !l->is_error) && *text)
        snprintf(l->cause, l->cause_size, "%s", error ? error : text);
    l->len = 0;
    l->is_passed = false;
}

static void read_lines(struct stderr_lines *l, const char *bytes, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        if (l->len + 1 == sizeof l->raw) {
            copy_bytes(l);
            l->len = 0;
            l->is_passed = true;
        }
        l->raw[l->len++] = bytes[i];
        if (bytes[i] == '\n')
            end_line(l);
    }
}

/* Read what comes from fd until it ends, the child ends, or the user stops it. */
static void listen_to(int fd, struct td_proc *p, struct stderr_lines *l)
{
    struct pollfd pf = {fd, POLLIN, 0};
    struct td_error none = {0, ""};
    char bytes[4096];

    while (!td_gate_signal) {
        int ready = poll(&pf, 1, 200);
        ssize_t n;

        if (ready == 0 && td_proc_wait(p, 0, &none) == TD_OK)
            return; /* the child ended; a grandchild may hold the pipe open for ever */
        if (ready < 0 && errno != EINTR)
            return; /* what it says is lost; its exit is awaited without */
        if (ready <= 0)
            continue;
        n = read(fd, bytes, sizeof bytes);
        if (n == 0 || (n < 0 && errno != EINTR))
            return;
        if (n > 0)
            read_lines(l, bytes, (size_t)n);
    }
}

static int wait_for(struct td_proc *p, struct td_error *err)
{
    while (!td_gate_signal) {
        int rc = td_proc_wait(p, 100, err);

        if (rc != TD_ETIMEOUT)
            return rc;
    }
    td_proc_end(p, 5000);
    return td_fail(err, TD_EINTR, "interrupted by SIG%s", sigabbrev_np((int)td_gate_signal));
}

/* Start the program with its stderr in a pipe, whose reading end is put into *from. With a stderr
 * that is a terminal the program writes there itself, and its errors to the pipe. */
static int start(struct td_command *c, enum td_run_output output, struct td_proc *p, int *from,
                 struct td_error *err)
{
    struct td_proc_options o = {
        .argv = c->argv, .stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1, .ends_with_us = true};
    int fds[2] = {-1, -1}, keep[3] = {-1, -1, -1}, nowhere = -1, headers, rc;
    char variable[64], *env[] = {variable, NULL}, option[40];

    *from = -1;
    if (output == TD_RUN_DROP && (nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC)) < 0)
        return td_fail(err, TD_EIO, "/dev/null: %s", strerror(errno));
    rc = add_headers(c, option, &headers, err);
    keep[0] = headers;
    o.stdout_fd = output == TD_RUN_TO_STDERR ? STDERR_FILENO : nowhere;
    o.keep_fds = keep;
    if (c->failed)
        rc = td_fail(err, TD_ELIMIT, "more than %d arguments for %s", TD_RUN_MAX_ARGS, c->program);
    if (!rc && pipe2(fds, O_CLOEXEC)) {
        rc = td_fail(err, TD_EIO, "pipe: %s", strerror(errno));
    } else if (!rc) {
        if (isatty(STDERR_FILENO)) {
            snprintf(variable, sizeof variable, TD_LOG_ERROR_VARIABLE "=%d", fds[1]);
            keep[headers >= 0] = fds[1];
            o.extra_env = env;
        } else {
            o.stderr_fd = fds[1];
        }
        fflush(stdout);
        rc = td_proc_start(p, &o, err);
        *from = fds[0];
    }
    if (fds[1] >= 0)
        close(fds[1]);
    if (nowhere >= 0)
        close(nowhere);
    if (headers >= 0)
        close(headers);
    return rc;
}

int td_run(struct td_command *c, enum td_run_output output, struct td_outcome *out,
           struct td_error *err)
{
    struct stderr_lines l = {
        .copy = !isatty(STDERR_FILENO), .cause = out->cause, .cause_size = sizeof out->cause};
    const int64_t began_ns = td_clock_mono_ns();
    struct td_proc p;
    int from, rc;

    memset(out, 0, sizeof *out);
    rc = start(c, output, &p, &from, err);
    if (!rc && from >= 0)
        listen_to(from, &p, &l);
    if (l.len)
        end_line(&l);
    if (from >= 0)
        close(from);
    if (!rc)
        rc = wait_for(&p, err);
    td_log(TD_LOG_INFO, "gate", "%s took %.2f s", strrchr(c->program, '/') + 1, (double)(td_clock_mono_ns() - began_ns) / TD_NS_PER_S);
    if (rc) {
        say_error(&l);
        return rc;
    }
    out->exited = WIFEXITED(p.status);
    out->code = out->exited ? WEXITSTATUS(p.status) : -1;
    out->is_error = l.is_error;
    if (out->exited && !out->code)
        say_error(&l);
    td_proc_describe(p.status, out->ended, sizeof out->ended);
    if (!*out->cause)
        snprintf(out->cause, sizeof out->cause, "%s", out->ended);
    return TD_OK;
}
