/* build_process.c - a build in a process of its own, seen from the replayer.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/build_process.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/args.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/memory.h"
#include "replayer/replay_times.h"
#include "replayer/run_images.h"

#define HELLO_TIMEOUT_MS 300000 /* torch takes 7 s of CPU time to load, and took a minute on a busy machine */

const char *td_run_status_name(enum td_run_status s)
{
    static const char *const names[] = {"ok", "unsupported", "failed", "crashed", "hung", "broken"};

    return names[s];
}

void td_run_result_release(struct td_run_result *r)
{
    free(r->memory);
    memset(r, 0, sizeof *r);
}

/* ---- start and end ------------------------------------------------------------------------------------------------- */

/* Count the arena and what the child holds as memory of this program. */
static void book_memory(struct td_build_process *r)
{
    int64_t now = (int64_t)(r->arena_used + r->held);

    td_memory_beside(now - r->booked);
    r->booked = now;
}

static void close_socket(struct td_build_process *r)
{
    r->held = 0;
    book_memory(r);
    if (r->sock > 0)
        close(r->sock);
    r->sock = -1;
    r->arena_sent = false;
    r->lies.n = 0; /* it may have written anywhere before it ended */
}

/* Receive a packet; what the process writes meanwhile is read too. */
static int receive(struct td_build_process *r, struct td_proto_msg *m, int timeout_ms, struct td_error *err)
{
    int rc = td_child_output_wait(&r->output, r->sock, timeout_ms, r->opt.stop, err);

    return rc ? rc : td_proto_recv(r->sock, m, NULL, 0, err);
}

/* What is added to the child's environment: the user's variables, and the rows of --ops. */
static void join_env(const struct td_build_process_options *opt, char *env[TD_ARG_LIST_MAX + 2])
{
    int n = 0;

    for (; opt->env && opt->env[n] && n < TD_ARG_LIST_MAX; n++)
        env[n] = opt->env[n];
    if (opt->rows)
        env[n++] = (char *)(uintptr_t)opt->rows;
    env[n] = NULL;
}

static int spawn_child(struct td_build_process *r, struct td_error *err)
{
    char *env[TD_ARG_LIST_MAX + 2];
    char fd_text[16], bin[TD_PATH_MAX], program[TD_PATH_MAX];
    char *argv[] = {program, "--child", fd_text, NULL},
         *with_script[] = {program, (char *)(uintptr_t)r->opt.script, "--child", fd_text, NULL};
    int pair[2], keep[2] = {-1, -1}, rc, output = -1;
    struct td_proc_options po = {.argv = r->opt.script ? with_script : argv,
                                 .extra_env = env,
                                 .stdin_fd = -1,
                                 .keep_fds = keep,
                                 .own_group = true,
                                 .ends_with_us = true};

    join_env(&r->opt, env);
    if (r->opt.program)
        rc = snprintf(program, sizeof program, "%s", r->opt.program) < (int)sizeof program ? TD_OK : TD_ELIMIT;
    else if (!(rc = td_fs_self_dir(bin, sizeof bin, err)))
        rc = td_fs_join(program, sizeof program, bin, "replay-child", err);
    if (rc)
        return td_fail(err, rc, "the path of replay-child is too long");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return td_fail(err, TD_EIO, "socketpair: %s", strerror(errno));
    keep[0] = pair[1];
    snprintf(fd_text, sizeof fd_text, "%d", pair[1]);
    rc = td_child_output_open(&r->output, &output, err);
    po.stdout_fd = po.stderr_fd = output;
    if (!rc)
        rc = td_proc_start(&r->proc, &po, err);
    if (output >= 0)
        close(output);
    close(pair[1]);
    if (rc) {
        close(pair[0]);
        return rc;
    }
    r->sock = pair[0];
    r->starts++;
    return TD_OK;
}

static void new_message(struct td_build_process *r, enum td_proto_type type, struct td_proto_msg *m)
{
    memset(m, 0, sizeof *m);
    m->magic = TD_PROTO_MAGIC;
    m->version = TD_PROTO_VERSION;
    m->type = type;
    m->seq = ++r->seq;
}

/* Collect a child that is gone or useless. text gets how it ended; if the child could write that
 * down, where it faulted; and what it wrote last.
 *   where : the stage it was in, in brackets; "": none */
static void collect_child(struct td_build_process *r, const char *where, char *text, size_t n)
{
    const char *fault = r->arena ? ((struct td_proto_arena *)r->arena)->fault : "", *said;
    char how[96];

    if (td_proc_wait(&r->proc, 2000, NULL))
        td_proc_end(&r->proc, 0);
    td_proc_describe(r->proc.status, how, sizeof how);
    said = td_child_output_message(&r->output);
    snprintf(text, n, "%s%s%.120s%s%s%.200s", how, fault[0] ? ": " : "", fault, where, said[0] ? ": " : "", said);
    close_socket(r);
}

/* The user does not wait for the child, which may hold a GPU. */
static int end_stopped(struct td_build_process *r, struct td_error *err)
{
    td_proc_end(&r->proc, 0);
    close_socket(r);
    return td_fail(err, TD_EINTR, "%s: stopped by a signal", r->opt.name);
}

/* Have the child open its provider. */
static void say_hello(struct td_build_process *r)
{
    struct td_proto_msg m;

    new_message(r, TD_PROTO_HELLO, &m);
    snprintf(m.provider, sizeof m.provider, "%s", r->opt.provider);
    snprintf(m.text, sizeof m.text, "%s", r->opt.arg ? r->opt.arg : "");
    td_child_output_forget(&r->output);
    if (td_proto_send(r->sock, &m, -1, NULL))
        shutdown(r->sock, SHUT_RDWR); /* await_hello() finds out why */
}

static int await_hello(struct td_build_process *r, struct td_error *err)
{
    struct td_proto_msg m;
    char how[480];
    int rc = receive(r, &m, HELLO_TIMEOUT_MS, err);

    if (rc == TD_EPROTO)
        return rc;
    if (rc == TD_EINTR)
        return end_stopped(r, err);
    if (rc == TD_ETIMEOUT) {
        td_proc_end(&r->proc, 0);
        close_socket(r);
        return td_fail(err, TD_ECRASH, "%s: %s: not loaded after %d s", r->opt.name, r->opt.arg ? r->opt.arg : r->opt.provider,
                       HELLO_TIMEOUT_MS / 1000);
    }
    if (rc) {
        collect_child(r, "", how, sizeof how);
        if (err)
            td_error_clear(err);
        return td_fail(err, TD_ECRASH, "%s: %s: the process that loads it ended (%s); a library built with a sanitizer needs "
                       "its runtime first in LD_PRELOAD", r->opt.name, r->opt.arg ? r->opt.arg : r->opt.provider, how);
    }
    if (m.status) { /* without its provider the child is of no use */
        td_proc_end(&r->proc, 0);
        close_socket(r);
        return td_fail(err, m.status, "%.470s", m.text);
    }
    snprintf(r->build, sizeof r->build, "%.255s", m.text);
    r->on_gpu = m.flags & TD_PROTO_ON_GPU;
    return TD_OK;
}

static int start_again(struct td_build_process *r, struct td_error *err)
{
    const int rc = spawn_child(r, err);

    if (rc)
        return rc;
    say_hello(r);
    return await_hello(r, err);
}

int td_build_process_begin(struct td_build_process *r, const struct td_build_process_options *opt,
                           struct td_error *err)
{
    int rc;

    memset(r, 0, sizeof *r);
    r->opt = *opt;
    r->sock = r->arena_fd = -1;
    td_child_output_init(&r->output, opt->name);
    rc = spawn_child(r, err);
    if (rc)
        td_build_process_stop(r);
    else
        say_hello(r);
    return rc;
}

int td_build_process_await(struct td_build_process *r, struct td_error *err)
{
    const int rc = await_hello(r, err);

    if (rc)
        td_build_process_stop(r);
    return rc;
}

int td_build_process_restart(struct td_build_process *r, struct td_error *err)
{
    struct td_proto_msg m;

    if (r->sock < 0)
        return start_again(r, err);
    new_message(r, TD_PROTO_RESTART, &m);
    r->arena_sent = false;
    if (td_proto_send(r->sock, &m, -1, err))
        return err ? err->code : TD_EIO;
    say_hello(r);
    return await_hello(r, err);
}

void td_build_process_leave(struct td_build_process *r)
{
    struct td_proto_msg m;

    if (r->proc.pid <= 0 || r->sock < 0 || r->left)
        return;
    new_message(r, TD_PROTO_BYE, &m);
    r->left = !td_proto_send(r->sock, &m, -1, NULL);
}

void td_build_process_stop(struct td_build_process *r)
{
    td_build_process_leave(r);
    if (r->proc.pid > 0 && (!r->left || td_proc_wait(&r->proc, 1000, NULL)))
        td_proc_end(&r->proc, 0);
    close_socket(r);
    if (r->output.name) /* zeroed: never opened */
        td_child_output_close(&r->output);
    if (r->arena)
        munmap(r->arena, r->arena_size);
    if (r->arena_fd > 0)
        close(r->arena_fd);
    r->arena = NULL;
    r->arena_fd = -1;
    r->arena_used = 0;
    book_memory(r);
}

/* ---- one request --------------------------------------------------------------------------------------------------- */

/* Is there room for the op in the arena and in the child? Then both are counted.
 *   need : of the arena */
static int make_room(struct td_build_process *r, const struct td_op_call *op, uint64_t need, struct td_error *err)
{
    const uint64_t copies = td_proto_copies_size(op), used = r->arena_used, held = r->held;
    char what[160];

    snprintf(what, sizeof what, "a %.40s, for the process of the %.40s", op->kind, r->opt.name);
    r->arena_used = r->held = 0;
    book_memory(r);
    if (r->arena && r->arena_size >= need && used > need)
        need = used;
    if (td_memory_room(need + copies, what, err)) {
        r->arena_used = used;
        r->held = held;
        book_memory(r);
        return TD_ENOMEM;
    }
    r->may_hold = td_memory_left();
    r->may_hold = r->may_hold > need + copies ? r->may_hold - need : copies;
    r->arena_used = need;
    r->held = held > copies ? held : copies;
    book_memory(r);
    return TD_OK;
}

static int make_arena(struct td_build_process *r, uint64_t need, struct td_error *err)
{
    if (r->arena && r->arena_size >= need)
        return TD_OK;
    if (r->arena)
        munmap(r->arena, r->arena_size);
    if (r->arena_fd > 0)
        close(r->arena_fd);
    r->arena = NULL;
    r->lies.n = 0;
    r->arena_size = need + need / 2;
    r->arena_sent = false;
    r->arena_fd = memfd_create("tapedeck-ops", MFD_CLOEXEC);
    if (r->arena_fd < 0 || ftruncate(r->arena_fd, (off_t)r->arena_size))
        return td_fail(err, TD_ENOMEM, "cannot get %llu bytes of shared memory: %s",
                       (unsigned long long)r->arena_size, strerror(errno));
    r->arena = mmap(NULL, r->arena_size, PROT_READ | PROT_WRITE, MAP_SHARED, r->arena_fd, 0);
    if (r->arena == MAP_FAILED) {
        r->arena = NULL;
        return td_fail(err, TD_ENOMEM, "cannot map %llu bytes of shared memory: %s", (unsigned long long)r->arena_size,
                       strerror(errno));
    }
    return TD_OK;
}

/* Make sure that a child runs (start another if need be) and that its arena holds the op. *over: the op is larger than
 * what is allowed. */
static int make_ready(struct td_build_process *r, const struct td_op_call *op, int repeats,
                      bool *over, struct td_error *err)
{
    struct td_proto_msg m;
    uint64_t need;

    *over = td_proto_arena_size(op, repeats, &need, err) || make_room(r, op, need, err);
    if (*over || make_arena(r, need, err) ||
        td_proto_pack(op, r->arena, r->arena_size, repeats, &r->lies, err))
        return err->code;
    if (r->sock < 0 && start_again(r, err))
        return td_fail_at(err, "%s: cannot be started again", r->opt.name);
    if (!r->arena_sent) {
        new_message(r, TD_PROTO_ARENA, &m);
        m.size = r->arena_size;
        r->arena_sent = !td_proto_send(r->sock, &m, r->arena_fd, NULL);
    }
    /* A child that has another arena would run what lies there: end it, and RUN finds it gone. */
    if (!r->arena_sent && td_proc_wait(&r->proc, 2000, NULL))
        td_proc_end(&r->proc, 0);
    return TD_OK;
}

static const char *describe_stage(const struct td_proto_arena *a, char *out, size_t n)
{
    static const char *const names[] = {
        "between runs", "while loading tensors", "in prepare", "in run", "in fetch", "in release"};
    uint32_t s = a->stage;

    if (s == TD_STAGE_RUN || s == TD_STAGE_FETCH)
        snprintf(out, n, "%s, repeat %u", names[s], a->repeat);
    else
        snprintf(out, n, "%s", s < sizeof names / sizeof *names ? names[s] : "somewhere");
    return out;
}

/* After TD_PROTO_LAST the child ends by itself, since the run left it useless: collect it. The next op
 * gets a new child. */
static void collect_spent_child(struct td_build_process *r, const struct td_proto_msg *m)
{
    if (!(m->flags & TD_PROTO_LAST))
        return;
    if (td_proc_wait(&r->proc, 2000, NULL))
        td_proc_end(&r->proc, 0);
    close_socket(r);
}

/* No answer came within deadline_ms. Wait on if the child has entered another stage since, or is in
 * prepare, which has its own limit. */
static bool is_at_work(const struct td_build_process *r, const struct td_proto_arena *a,
                       uint64_t *seen, int64_t *waited_ms)
{
    if (a->progress != *seen) {
        *seen = a->progress;
        *waited_ms = 0;
        return true;
    }
    *waited_ms += r->opt.deadline_ms;
    return a->stage == TD_STAGE_PREPARE && *waited_ms < r->opt.prepare_ms;
}

/* Send a request and wait for its reply; the deadline starts anew whenever the child enters another stage.
 * TD_OK; TD_ECRASH: the child crashed or hung (*status, text) and has been collected; TD_EINTR: it was ended, since
 * the user stops; TD_EPROTO. */
static int call_child(struct td_build_process *r, struct td_proto_msg *m, enum td_run_status *status,
                char *text, size_t n, struct td_error *err)
{
    struct td_proto_arena *a = r->arena;
    uint64_t seen = a->progress;
    int64_t waited_ms = 0;
    uint32_t seq = m->seq;
    char where[64], brackets[72];
    int rc;

    td_child_output_forget(&r->output);
    rc = td_proto_send(r->sock, m, -1, NULL);
    while (!rc) {
        rc = receive(r, m, r->opt.deadline_ms, err);
        if (rc == TD_ETIMEOUT && is_at_work(r, a, &seen, &waited_ms)) {
            rc = TD_OK;
            continue;
        }
        if (!rc && m->seq == seq) {
            if (m->type == TD_PROTO_RUN || m->type == TD_PROTO_PREPARE) {
                r->held = m->size < r->may_hold ? m->size : r->may_hold;
                book_memory(r);
            }
            return TD_OK;
        }
    }
    if (rc == TD_EPROTO)
        return rc;
    if (err)
        td_error_clear(err);
    if (rc == TD_EINTR)
        return end_stopped(r, err);
    describe_stage(a, where, sizeof where);
    if (rc == TD_ETIMEOUT) {
        *status = TD_RUN_HUNG;
        r->hangs++;
        td_proc_end(&r->proc, 0);
        close_socket(r);
        snprintf(text, n, "no answer for %.3g s %s", (double)waited_ms / 1000.0, where);
    } else {
        *status = TD_RUN_CRASHED;
        r->crashes++;
        snprintf(brackets, sizeof brackets, " (%s)", where);
        collect_child(r, brackets, text, n);
    }
    td_log(TD_LOG_INFO, "replay", "%s: %s", r->opt.name, text);
    return TD_ECRASH;
}

/* There is no memory for the run. */
static void break_run(struct td_run_result *res, const struct td_error *why)
{
    res->status = TD_RUN_BROKEN;
    res->no_memory = true;
    snprintf(res->reason, sizeof res->reason, "%.479s", why->msg);
}

/* Take the outputs out of the arena. */
static void copy_images(struct td_build_process *r, const struct td_op_call *op, int repeats, struct td_run_result *res)
{
    const char *from = (char *)r->arena + ((struct td_proto_arena *)r->arena)->out.offset;
    struct td_error refused = {0};

    if (td_run_images_take(from, op->out.size_bytes, repeats, res, &refused))
        break_run(res, &refused);
}

/* Did the run fail for a reason that is no finding about the build? The child ended by its own decision or by ours, or
 * refused, without having come to the build's code; a build that spoils the child's memory makes it die of another
 * signal, or exit with another code. Or memory was lacking: the child, the build or the C++ runtime says so, or the
 * kernel's OOM killer ended the child (SIGKILL; the replayer's own, after a deadline, is TD_RUN_HUNG). */
static bool failed_outside_build(const struct td_build_process *r, int rc, enum td_run_status status, const char *reason,
                                 const struct td_proto_msg *m)
{
    const struct td_proto_arena *a = r->arena;
    const int how = r->proc.status;

    if (rc == TD_ECRASH && status == TD_RUN_CRASHED) {
        if ((WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL) || strstr(reason, "bad_alloc"))
            return true;
        return a->stage <= TD_STAGE_LOAD && ((WIFEXITED(how) && WEXITSTATUS(how) == TD_EXIT_BROKEN) ||
                                             (WIFSIGNALED(how) && WTERMSIG(how) == SIGTERM));
    }
    if (rc)
        return false;
    return m->status == TD_PROTO_NO_MEMORY || (m->status == TD_PROTO_FAILED && a->reached < TD_STAGE_PREPARE);
}

/* What the child says of TD_PROTO_TIMES. */
static void count_times(const char *text)
{
    long long ns[5];

    if (sscanf(text, "%lld %lld %lld %lld %lld", &ns[0], &ns[1], &ns[2], &ns[3], &ns[4]) == 5)
        for (int i = 0; i < 5; i++)
            td_time_spent_ns(&td_replay_times[TD_TIME_BUILD_LOAD + i], ns[i]);
}

/* One attempt. *outside: it failed without having come to the build's code. */
static int run_once(struct td_build_process *r, const struct td_op_call *op, int repeats,
                    struct td_run_result *res, bool *outside, struct td_error *err)
{
    struct td_error refused = {0};
    struct td_proto_msg m;
    int64_t at;
    bool over;
    int rc;

    memset(res, 0, sizeof *res);
    *outside = false;
    at = td_clock_mono_ns();
    rc = make_ready(r, op, repeats, &over, &refused);
    if (rc && over) {
        break_run(res, &refused);
        return TD_OK;
    }
    if (rc)
        return td_fail(err, rc, "%s", refused.msg);
    new_message(r, TD_PROTO_RUN, &m);
    m.size = r->may_hold;
    m.repeats = (uint32_t)repeats;
    m.flags = (r->opt.guard ? TD_PROTO_GUARD : 0) | TD_PROTO_TIMES;
    at = td_replay_spent(TD_TIME_RUN_PACK, at);
    rc = call_child(r, &m, &res->status, res->reason, sizeof res->reason, err);
    at = td_replay_spent(TD_TIME_RUN_WAIT, at);
    res->reached = ((struct td_proto_arena *)r->arena)->reached;
    *outside = failed_outside_build(r, rc, res->status, res->reason, &m);
    if (rc)
        return rc == TD_ECRASH ? TD_OK : rc;
    collect_spent_child(r, &m);
    if (m.status != TD_PROTO_OK)
        r->lies.n = 0;
    res->status = m.status == TD_PROTO_OK ? TD_RUN_OK : m.status == TD_PROTO_UNSUPPORTED ? TD_RUN_UNSUPPORTED : TD_RUN_FAILED;
    if (m.flags & TD_PROTO_LAST && res->status == TD_RUN_FAILED) { /* costs a process, so it counts as a crash */
        res->status = TD_RUN_CRASHED;
        r->crashes++;
    }
    if (m.status == TD_PROTO_OK)
        count_times(m.text);
    else
        snprintf(res->reason, sizeof res->reason, "%.479s", m.text);
    memcpy(res->rounding, m.rounding, sizeof res->rounding);
    res->varies = m.flags & TD_PROTO_VARIES;
    res->half_sums = m.iterations <= INT_MAX / 2 ? (int)m.iterations : 0;
    if (m.repeats > (uint32_t)repeats)
        return td_fail(err, TD_EPROTO, "%s: the child says it ran %u of %d repeats", r->opt.name, m.repeats, repeats);
    if (m.repeats)
        copy_images(r, op, (int)m.repeats, res);
    td_replay_spent(TD_TIME_RUN_IMAGES, at);
    return TD_OK;
}

/* Where a GPU's process has ended in a run: is the GPU still there? Without it this run is no finding about the build, nor
 * is any other. The next run needs the new process anyway. */
static int check_gpu(struct td_build_process *r, const struct td_run_result *res, struct td_error *err)
{
    const bool ended = r->sock < 0 && (res->status == TD_RUN_CRASHED || res->status == TD_RUN_HUNG);

    if (!ended || !(r->on_gpu || td_build_process_is_of_gpu(r)) || !start_again(r, err))
        return TD_OK;
    return td_fail_at(err, "%s: its GPU was lost (%.200s)", r->opt.name, res->reason);
}

int td_build_process_run(struct td_build_process *r, const struct td_op_call *op, int repeats,
                         struct td_run_result *res, struct td_error *err)
{
    char why[sizeof res->reason];
    bool outside;
    int rc = run_once(r, op, repeats, res, &outside, err);

    if (!rc && !outside)
        rc = check_gpu(r, res, err);
    if (rc || !outside)
        return rc;
    td_run_result_release(res);
    if (r->sock >= 0) {
        td_proc_end(&r->proc, 0);
        close_socket(r);
    }
    rc = run_once(r, op, repeats, res, &outside, err);
    if (rc || !outside)
        return rc;
    snprintf(why, sizeof why, "cannot be judged, tried twice: %.400s", res->reason);
    memcpy(res->reason, why, sizeof why);
    res->status = TD_RUN_BROKEN;
    res->no_memory = true;
    return TD_OK;
}

/* ---- timing -------------------------------------------------------------------------------------------------------- */

static int call_for_timing(struct td_build_process *r, struct td_proto_msg *m, struct td_error *err)
{
    enum td_run_status status;
    char text[480] = "its process is gone";
    int rc = r->sock < 0 ? TD_ECRASH : call_child(r, m, &status, text, sizeof text, err);

    if (rc == TD_ECRASH)
        return td_fail(err, rc, "%s: %s", r->opt.name, text);
    if (rc)
        return rc;
    collect_spent_child(r, m);
    if (m->status != TD_PROTO_OK)
        return td_fail(err, TD_EUNSUPPORTED, "%s: %.400s", r->opt.name, m->text);
    return TD_OK;
}

int td_build_process_prepare(struct td_build_process *r, const struct td_op_call *op,
                             struct td_error *err)
{
    struct td_proto_msg m;
    bool over;
    int rc = make_ready(r, op, 1, &over, err);

    if (rc)
        return rc;
    new_message(r, TD_PROTO_PREPARE, &m);
    m.size = r->may_hold;
    m.flags = r->opt.guard ? TD_PROTO_GUARD : 0;
    return call_for_timing(r, &m, err);
}

int td_build_process_time(struct td_build_process *r, uint32_t iterations, bool cold, int64_t *ns,
                          struct td_error *err)
{
    struct td_proto_msg m;
    int rc;

    new_message(r, TD_PROTO_TIME, &m);
    m.iterations = iterations;
    m.flags = cold ? TD_PROTO_COLD : 0;
    rc = call_for_timing(r, &m, err);
    *ns = rc ? 0 : m.ns;
    snprintf(r->condition, sizeof r->condition, "%.519s", rc ? "" : m.text);
    return rc;
}

int td_build_process_forget(struct td_build_process *r, struct td_error *err)
{
    struct td_proto_msg m;

    if (!r->arena_sent) /* nothing was prepared since the child started */
        return TD_OK;
    new_message(r, TD_PROTO_RELEASE, &m);
    return call_for_timing(r, &m, err);
}
