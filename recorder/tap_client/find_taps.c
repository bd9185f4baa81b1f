/* find_taps.c - from a port or a process to the sockets of its taps.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap_client/find_taps.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/processes.h"
#include "recorder/tap/core/tap_proto.h"
#include "recorder/tap_client/proc_files.h"

static const char loaded[] =
    "the tap is loaded but has seen no GEMM yet: send the server a request first; it sees "
    "td_gptq_gemm, and the CPU builds of vLLM and llama.cpp in shared libraries, but nothing that "
    "is linked statically or looked up by dlsym";
static const char not_loaded[] =
    "the server runs without the tap: start it with `record --run -- COMMAND`, or after "
    "`eval \"$(record --tap-env)\"` in its shell";

/* ---- /proc ----------------------------------------------------------------------------------- */

/* Read a variable of the environment that the process started with. False: it is not set, or does
 * not fit. */
static bool read_env(pid_t pid, const char *name, char *out, size_t max)
{
    struct td_buf b = TD_BUF_INIT(4u << 20);
    size_t len = strlen(name), at;
    bool found = false;

    if (client_read_proc(pid, "environ", &b))
        for (at = 0; at < b.len && !found; at += strlen(b.data + at) + 1)
            if (!strncmp(b.data + at, name, len) && b.data[at + len] == '=')
                found = snprintf(out, max, "%s", b.data + at + len + 1) < (int)max;
    td_buf_release(&b);
    return found;
}

/* ---- which processes ---------------------------------------------------------------------------- */

static int mark_port(struct td_process *all, size_t n, int port, struct td_error *err)
{
    switch (td_processes_mark_port("/proc", all, n, port)) {
    case TD_LISTENER_FOUND:
        return TD_OK;
    case TD_LISTENER_NONE:
        return td_fail(err, TD_ENOTFOUND,
                       "no process of this machine listens on port %d; for a server in a container "
                       "give --tap-socket",
                       port);
    case TD_LISTENER_TOO_MANY:
        return td_fail(err, TD_ELIMIT, "more than %d sockets listen on port %d; give --tap-socket",
                       TD_LISTENERS_MAX, port);
    case TD_LISTENER_DENIED:
        return td_fail(err, TD_ENOTFOUND, "port %d belongs to a process that another user owns; give --tap-socket", port);
    case TD_LISTENER_HIDDEN:
        break;
    }
    return td_fail(err, TD_ENOTFOUND, "port %d belongs to a process that is hidden from us (a container?); give --tap-socket", port);
}

static int mark_pid(struct td_process *all, size_t n, pid_t pid, struct td_error *err)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (all[i].pid == pid) {
            all[i].in = true;
            return TD_OK;
        }
    return td_fail(err, TD_ENOTFOUND, "process %d is gone", (int)pid);
}

/* ---- process -> socket ----------------------------------------------------------------------- */

/* Is it a folder of this user, and closed to all others? */
static bool is_private_folder(const char *dir, uid_t uid)
{
    struct stat st;

    return !lstat(dir, &st) && S_ISDIR(st.st_mode) && st.st_uid == uid && !(st.st_mode & 077);
}

/* Say what is wrong with the folder of the tap's sockets: somebody else may have made it first. */
static int fail_folder(const char *dir, uid_t uid, struct td_error *err)
{
    struct stat st;

    if (lstat(dir, &st) || !S_ISDIR(st.st_mode))
        return td_fail(err, TD_EIO,
                       "%s: the tap's sockets belong there, and it is no folder; remove it, or set "
                       "TD_TAP_DIR to another, for the server too",
                       dir);
    if (st.st_uid != uid)
        return td_fail(err, TD_EIO,
                       "%s: the tap's sockets belong there, and user %u has made it, not user %u; "
                       "set TD_TAP_DIR to another folder, for the server too",
                       dir, (unsigned)st.st_uid, (unsigned)uid);
    return td_fail(err, TD_EIO,
                   "%s: the tap's sockets belong there, and it is open to other users (mode %04o); "
                   "chmod 700 it, or set TD_TAP_DIR to another folder, for the server too",
                   dir, (unsigned)st.st_mode & 07777);
}

/* Is the process's socket in that folder? False: no, or the folder is not private, which err names
 * unless it names one already. */
static bool is_in_folder(pid_t pid, uid_t uid, const char *dir, char out[CLIENT_SOCKET_PATH],
                         struct td_error *err)
{
    struct stat st;

    if (!is_private_folder(dir, uid)) {
        if (!err->code)
            fail_folder(dir, uid, err);
        return false;
    }
    return snprintf(out, CLIENT_SOCKET_PATH, "%s/tap-%d.sock", dir, (int)pid) <
               (int)CLIENT_SOCKET_PATH &&
           !stat(out, &st) && S_ISSOCK(st.st_mode);
}

/* The path of the process's socket: where its environment puts it, or ours, or where it lies without
 * one. A server that gives its process a title (vLLM does) overwrites what /proc shows of its
 * environment. False: there is none, or it is in somebody else's folder, which err then names. */
static bool find_socket(pid_t pid, char out[CLIENT_SOCKET_PATH], struct td_error *err)
{
    char dir[CLIENT_SOCKET_PATH + 16], base[CLIENT_SOCKET_PATH], proc[64];
    const char *ours = getenv("TD_TAP_DIR");
    struct td_error where = {0};
    struct stat st;
    bool found;

    snprintf(proc, sizeof proc, "/proc/%d", (int)pid);
    if (stat(proc, &st))
        return false;
    if (read_env(pid, "TD_TAP_DIR", base, sizeof base))
        snprintf(dir, sizeof dir, "%s", base);
    else if (read_env(pid, "XDG_RUNTIME_DIR", base, sizeof base) && base[0])
        snprintf(dir, sizeof dir, "%s/tapedeck", base);
    else
        snprintf(dir, sizeof dir, "/tmp/tapedeck-%u", (unsigned)st.st_uid);
    found = is_in_folder(pid, st.st_uid, dir, out, &where) ||
            (ours && *ours && is_in_folder(pid, st.st_uid, ours, out, &where));
    if (!found && where.code)
        *err = where;
    return found;
}

static bool has_tap_loaded(pid_t pid)
{
    struct td_buf b = TD_BUF_INIT(64u << 20);
    bool found = client_read_proc(pid, "maps", &b) && strstr(b.data, "libtapedeck-tap.so");

    td_buf_release(&b);
    return found;
}

static int find_once(const struct td_tap_client_target *t, struct client_found out[CLIENT_MAX_TAPS],
                     int *n, struct client_missed *missed, struct td_error *err)
{
    struct client_found one;
    struct td_error folder = {0};
    struct td_process *all;
    size_t n_all, i;
    bool any_loaded = false;
    int rc;

    *n = 0;
    *missed = (struct client_missed){0};
    all = td_processes_list("/proc", &n_all);
    if (!all)
        return td_fail(
            err, TD_EIO,
            "/proc cannot be read: the tap's process cannot be found; give --tap-socket");
    if (n_all > TD_PROCESSES_MAX)
        rc = td_fail(err, TD_ELIMIT,
                     "more than %d processes on this machine: the tap's is not looked for; give "
                     "--tap-socket",
                     TD_PROCESSES_MAX);
    else if (t->pid > 0)
        rc = mark_pid(all, n_all, t->pid, err);
    else
        rc = mark_port(all, n_all, t->port, err);
    if (!rc)
        td_processes_mark_descendants(all, n_all);
    for (i = 0; i < n_all && !rc; i++) {
        if (!all[i].in)
            continue;
        one.pid = all[i].pid;
        if (!find_socket(one.pid, one.socket, &folder)) {
            any_loaded = any_loaded || has_tap_loaded(one.pid);
            if (client_has_thread(one.pid, TAP_THREAD) && !missed->deaf++)
                missed->first_deaf = one.pid;
        } else if (*n < CLIENT_MAX_TAPS) {
            out[(*n)++] = one;
        } else {
            missed->left_out++;
        }
    }
    free(all);
    if (!rc && !*n)
        rc = td_fail(err, TD_ENOTFOUND, "%s",
                     !any_loaded   ? not_loaded
                     : folder.code ? folder.msg
                                   : loaded);
    return rc;
}

int client_find_taps(const struct td_tap_client_target *t, struct client_found out[CLIENT_MAX_TAPS],
                     int *n, struct client_missed *missed, struct td_error *err)
{
    int64_t until = td_clock_mono_ns() + t->wait_ms * TD_NS_PER_MS;
    struct td_error last = {0};
    int rc;

    if (t->socket) {
        *n = 1;
        *missed = (struct client_missed){0};
        out[0].pid = 0;
        if (snprintf(out[0].socket, CLIENT_SOCKET_PATH, "%s", t->socket) >= (int)CLIENT_SOCKET_PATH)
            return td_fail(err, TD_EINVAL,
                           "%s: longer than the %zu bytes that a socket's path may have", t->socket,
                           CLIENT_SOCKET_PATH - 1);
        return TD_OK;
    }
    if (t->pid <= 0 && (t->port <= 0 || t->port > 65535))
        return td_fail(err, TD_EINVAL, "no process and no port to look for a tap in");
    for (;;) {
        td_error_clear(&last);
        rc = find_once(t, out, n, missed, &last);
        if ((!rc && !missed->deaf) || td_clock_mono_ns() >= until)
            break;
        td_clock_sleep_until(td_clock_mono_ns() + 50 * TD_NS_PER_MS);
    }
    return rc ? td_fail(err, rc, "%s", last.msg) : TD_OK;
}

int client_socket_dir(char *out, size_t n, struct td_error *err)
{
    const char *set = getenv("TD_TAP_DIR"), *xdg = getenv("XDG_RUNTIME_DIR");
    int len;

    if (set && *set)
        len = snprintf(out, n, "%s", set);
    else if (xdg && *xdg)
        len = snprintf(out, n, "%s/tapedeck", xdg);
    else
        len = snprintf(out, n, "/tmp/tapedeck-%u", (unsigned)geteuid());
    if (len >= (int)n || len + 24 >= (int)CLIENT_SOCKET_PATH)
        return td_fail(
            err, TD_EINVAL,
            "the runtime folder's path is too long for a socket; set TD_TAP_DIR to a shorter one");
    if (mkdir(out, 0700) && errno != EEXIST)
        return td_fail(err, TD_EIO,
                       "%s: cannot create the runtime folder: %s; set TD_TAP_DIR to another", out,
                       strerror(errno));
    if (!is_private_folder(out, geteuid()))
        return fail_folder(out, geteuid(), err);
    return TD_OK;
}
