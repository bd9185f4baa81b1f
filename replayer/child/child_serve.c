/* child_serve.c - serve the requests of the replayer: open a provider, run ops, time them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The build works on guarded copies of the tensors. The arena itself is only touched between calls
 * of the build. */
#include "replayer/child/child_serve.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "common/clock.h"
#include "common/memory.h"
#include "kernels/providers/providers.h"
#include "replayer/child/child_fault.h"
#include "replayer/child/guard.h"
#include "replayer/child_protocol.h"
#include "replayer/poison.h"

#define N_GUARDS (TD_OP_MAX_TENSORS + 1)
#define OUT_GUARD TD_OP_MAX_TENSORS
#define SWEEP_BYTES ((size_t)64 << 20) /* read to empty the caches where there is no clflush */

struct child {
    int sock;
    const struct td_provider *provider;
    void *state;
    struct td_proto_arena *arena;
    uint64_t arena_size;
    struct td_guard guards[N_GUARDS];
    char roles[N_GUARDS][TD_OP_MAX_ROLE];
    struct td_child_fault_watch watch;
    struct td_op_call op;        /* the op in guarded memory */
    struct td_op_call source;    /* the op in the arena */
    void *images;
    void *prepared;              /* between PREPARE and RELEASE */
    int64_t stage_ns[TD_STAGE_RELEASE + 1], entered_ns; /* how long each stage of the request took; when the last one began */
    bool clean;                  /* the last request ran, and left its inputs as they were */
    void *sweep;
};

static void enter_stage(struct child *c, enum td_proto_stage s, uint32_t repeat)
{
    const int64_t now = td_clock_mono_ns();

    if (c->arena->stage <= TD_STAGE_RELEASE)
        c->stage_ns[c->arena->stage] += now - c->entered_ns;
    c->entered_ns = now;
    c->arena->repeat = repeat;
    c->arena->stage = s;
    if (s > c->arena->reached)
        c->arena->reached = s;
    c->arena->progress++;
}

/* ---- its own memory ------------------------------------------------------------------------------------------------ */

static uint64_t held_bytes(const struct child *c)
{
    uint64_t n = 0;
    int i;

    for (i = 0; i < N_GUARDS; i++)
        n += c->guards[i].map_bytes;
    return n;
}

/* Make room for the copies of c->source within the `most` bytes that this process may hold itself. What the provider
 * asks td_memory_room() for later must fit in the rest. The build's own memory does not count. */
static int make_room(struct child *c, uint64_t most, struct td_error *err)
{
    uint64_t need = td_proto_copies_size(&c->source);
    int i;

    if (need > most)
        return td_fail(err, TD_ENOMEM,
                       "its tensors need %llu bytes in the process of the build, which may take %llu; --max-memory SIZE allows more",
                       (unsigned long long)need, (unsigned long long)most);
    for (i = 0; held_bytes(c) + need > most && i < N_GUARDS; i++)
        td_guard_release(&c->guards[i]);
    return TD_OK;
}

/* ---- load the arena's op into guarded memory ----------------------------------------------------------------------- */

static int place_tensor(struct child *c, int slot, const struct td_tensor *from,
                        struct td_tensor *to, bool guard, struct td_error *err)
{
    if (td_guard_place(&c->guards[slot], from->size_bytes, from->align, guard, err))
        return td_fail_at(err, "%s", from->role);
    memcpy(c->roles[slot], from->role, sizeof c->roles[slot]);
    *to = *from;
    to->data = c->guards[slot].data;
    return TD_OK;
}

/* Copy an input to its place, unless it lies there since the op before. */
static void copy_input(struct child *c, int t, bool was_clean)
{
    struct td_guard *g = &c->guards[t];
    const struct td_tensor *from = &c->source.in[t];

    if (!from->size_bytes || (was_clean && !td_hash_is_zero(from->content) && td_hash_eq(g->content, from->content)))
        return;
    memcpy(g->data, from->data, from->size_bytes);
    g->content = from->content;
}

static int load_arena_op(struct child *c, uint32_t repeats, bool guard, uint64_t most, struct td_error *err)
{
    const bool was_clean = c->clean;
    int t;

    c->clean = false;
    if (!c->arena)
        return td_fail(err, TD_EPROTO, "no arena was sent yet");
    enter_stage(c, TD_STAGE_LOAD, 0);
    if (td_proto_unpack(c->arena, c->arena_size, (int)repeats, &c->source, &c->images, err) || make_room(c, most, err))
        return err->code;
    c->op = c->source;
    c->op.guard = guard;
    for (t = 0; t < c->op.n_in; t++) {
        if (place_tensor(c, t, &c->source.in[t], &c->op.in[t], guard, err))
            return err->code;
        copy_input(c, t, was_clean);
    }
    if (place_tensor(c, OUT_GUARD, &c->source.out, &c->op.out, guard, err))
        return err->code;
    td_memory_allow(most - (held_bytes(c) < most ? held_bytes(c) : most));
    return TD_OK;
}

/* ---- run, and check the memory around the tensors
 * ------------------------------------------------------------------ */

static int check_gap(struct child *c, int slot, struct td_error *err)
{
    long at = td_guard_check(&c->guards[slot]);

    if (at > 0)
        return td_fail(err, TD_ECORRUPT, "wrote past the end of %s (byte %ld after it)", c->roles[slot], at - 1);
    if (at < 0)
        return td_fail(err, TD_ECORRUPT, "wrote before the start of %s (%ld bytes before it)", c->roles[slot], -at);
    return TD_OK;
}

/* Kernels on a GPU see copies of its own alone, and the provider looks around these. */
static int check_untouched(struct child *c, struct td_error *err)
{
    const bool on_gpu = c->provider->time != NULL;
    int t;

    for (t = 0; t < c->op.n_in; t++) {
        if (c->op.in[t].size_bytes && !on_gpu && memcmp(c->op.in[t].data, c->source.in[t].data, c->op.in[t].size_bytes))
            return td_fail(err, TD_ECORRUPT, "wrote into its input %s", c->op.in[t].role);
        if (check_gap(c, t, err))
            return err->code;
    }
    return check_gap(c, OUT_GUARD, err);
}

/* Set status and sentence of the reply unless they are set. A run that breaks the memory rules has
 * failed, yet its images are judged all the same. */
static void set_answer(struct td_proto_msg *m, enum td_proto_status status, const char *text)
{
    if (m->status != TD_PROTO_OK)
        return;
    m->status = status;
    snprintf(m->text, sizeof m->text, "%s", text ? text : "");
}

/* Answer with a provider's error, or the build's: -1. rc: 0 is none; else err may have no sentence. */
static int refuse(struct td_proto_msg *m, int rc, const struct td_error *err)
{
    const int code = err->code ? err->code : rc;

    if (!code)
        return 0;
    set_answer(m, code == TD_EUNSUPPORTED ? TD_PROTO_UNSUPPORTED : code == TD_ENOMEM ? TD_PROTO_NO_MEMORY : TD_PROTO_FAILED,
               *err->msg ? err->msg : td_code_name(code));
    return -1;
}

static int prepare_op(struct child *c, struct td_proto_msg *m, void **prepared)
{
    struct td_error err = {0};
    const char *why = c->provider->supports(c->state, &c->op);

    if (why) {
        set_answer(m, TD_PROTO_UNSUPPORTED, why);
        return -1;
    }
    enter_stage(c, TD_STAGE_PREPARE, 0);
    return refuse(m, c->provider->prepare(c->state, &c->op, prepared, &err), &err);
}

static int run_repeat(struct child *c, void *prepared, uint32_t repeat, struct td_proto_msg *m)
{
    struct td_error err = {0};
    char *image = (char *)c->images + td_proto_image_stride(c->op.out.size_bytes) * repeat;
    int rc = 0;

    td_poison_fill(c->op.out.dtype, (int)repeat, c->op.out.data, c->op.out.size_bytes);
    enter_stage(c, TD_STAGE_RUN, repeat);
    if (c->provider->refill)
        rc = c->provider->refill(c->state, prepared, &err);
    if (!rc)
        rc = c->provider->run(c->state, prepared, &err);
    if (rc)
        return refuse(m, rc, &err);
    enter_stage(c, TD_STAGE_FETCH, repeat);
    if ((rc = c->provider->fetch(c->state, prepared, &err)))
        return refuse(m, rc, &err);
    memcpy(image, c->op.out.data, c->op.out.size_bytes);
    if (check_untouched(c, &err))
        set_answer(m, TD_PROTO_FAILED, err.msg);
    return 0;
}

static void report_nature(struct child *c, const void *prepared, struct td_proto_msg *m)
{
    const char *r = c->provider->rounding ? c->provider->rounding(c->state, &c->op) : NULL;

    snprintf(m->rounding, sizeof m->rounding, "%s", r ? r : "");
    if (c->provider->varies && c->provider->varies(c->state, prepared))
        m->flags |= TD_PROTO_VARIES;
    m->iterations = (uint32_t)(c->provider->half_sums ? c->provider->half_sums(c->state, prepared) : 0);
}

static void say_times(struct child *c, struct td_proto_msg *m)
{
    enter_stage(c, TD_STAGE_IDLE, 0);
    snprintf(m->text, sizeof m->text, "%lld %lld %lld %lld %lld", (long long)c->stage_ns[TD_STAGE_LOAD], (long long)c->stage_ns[TD_STAGE_PREPARE],
             (long long)c->stage_ns[TD_STAGE_RUN], (long long)c->stage_ns[TD_STAGE_FETCH], (long long)c->stage_ns[TD_STAGE_RELEASE]);
}

static void serve_run(struct child *c, struct td_proto_msg *m)
{
    struct td_error err = {0};
    const bool says_times = m->flags & TD_PROTO_TIMES;
    uint32_t want = m->repeats;
    void *prepared = NULL;

    memset(c->stage_ns, 0, sizeof c->stage_ns);

    m->repeats = m->iterations = 0;
    m->rounding[0] = '\0';
    if (want > TD_PROTO_MAX_REPEATS || load_arena_op(c, want, m->flags & TD_PROTO_GUARD, m->size, &err)) {
        set_answer(m, TD_PROTO_FAILED, err.code ? err.msg : "too many repeats");
        return;
    }
    if (prepare_op(c, m, &prepared))
        return;
    report_nature(c, prepared, m);
    while (m->repeats < want && !run_repeat(c, prepared, m->repeats, m))
        m->repeats++;
    enter_stage(c, TD_STAGE_RELEASE, 0);
    c->provider->release(c->state, prepared);
    c->clean = m->status == TD_PROTO_OK;
    if (says_times && m->status == TD_PROTO_OK)
        say_times(c, m);
}

/* ---- timing -------------------------------------------------------------------------------------------------------- */

static void forget_prepared(struct child *c)
{
    if (c->prepared)
        c->provider->release(c->state, c->prepared);
    c->prepared = NULL;
}

static void serve_prepare(struct child *c, struct td_proto_msg *m)
{
    struct td_error err = {0};

    forget_prepared(c);
    if (load_arena_op(c, 1, m->flags & TD_PROTO_GUARD, m->size, &err)) {
        set_answer(m, TD_PROTO_FAILED, err.msg);
        return;
    }
    if (prepare_op(c, m, &c->prepared))
        c->prepared = NULL;
}

#if defined(__x86_64__)
static void flush_tensor(const struct td_tensor *t)
{
    size_t at;

    for (at = 0; at < t->size_bytes; at += 64)
        _mm_clflush((const char *)t->data + at);
}
#endif

/* Empty the caches of the op's tensors: flush their lines, or read a buffer larger than the
 * caches. */
static void make_cold(struct child *c)
{
#if defined(__x86_64__)
    int t;

    for (t = 0; t < c->op.n_in; t++)
        flush_tensor(&c->op.in[t]);
    flush_tensor(&c->op.out);
    _mm_mfence();
#else
    if (!c->sweep)
        c->sweep = malloc(SWEEP_BYTES);
    if (c->sweep)
        memset(c->sweep, (int)c->arena->progress, SWEEP_BYTES);
#endif
}

/* Time the runs by this process's clock, for a provider that has none of its own. */
static void time_on_host(struct child *c, struct td_proto_msg *m, struct td_error *err)
{
    int64_t from = td_clock_mono_ns();
    uint32_t i;

    for (i = 0; i < m->iterations && !err->code; i++) {
        if (m->flags & TD_PROTO_COLD) {
            make_cold(c);
            from = td_clock_mono_ns();
        }
        c->provider->run(c->state, c->prepared, err);
        if (m->flags & TD_PROTO_COLD)
            m->ns += td_clock_mono_ns() - from;
    }
    if (!(m->flags & TD_PROTO_COLD))
        m->ns = td_clock_mono_ns() - from;
}

/* Add what the provider reports of its device to the reply's text: a line before the runs, a line
 * after them. */
static void report_condition(struct child *c, struct td_proto_msg *m, bool after)
{
    char text[256] = "";
    size_t used = after ? strlen(m->text) : 0;

    if (!c->provider->condition)
        return;
    c->provider->condition(c->state, text, sizeof text);
    text[strcspn(text, "\n")] = '\0';
    snprintf(m->text + used, sizeof m->text - used, "%s%s", after ? "\n" : "", text);
}

static void serve_time(struct child *c, struct td_proto_msg *m)
{
    struct td_error err = {0};

    m->ns = 0;
    if (!c->prepared) {
        set_answer(m, TD_PROTO_FAILED, "TIME without PREPARE");
        return;
    }
    enter_stage(c, TD_STAGE_RUN, 0);
    report_condition(c, m, false);
    if (c->provider->time)
        c->provider->time(c->state, c->prepared, m->iterations, m->flags & TD_PROTO_COLD, &m->ns, &err);
    else
        time_on_host(c, m, &err);
    report_condition(c, m, true);
    if (err.code)
        set_answer(m, TD_PROTO_FAILED, err.msg);
}

/* ---- the rest of the protocol -------------------------------------------------------------------------------------- */

static void serve_hello(struct child *c, struct td_proto_msg *m)
{
    struct td_error err = {0};
    char arg[sizeof m->text];

    snprintf(arg, sizeof arg, "%s", m->text);
    m->text[0] = '\0';
    c->provider = td_provider_find(m->provider);
    if (!c->provider) {
        m->status = TD_EINVAL;
        snprintf(m->text, sizeof m->text,
                 "no provider \"%.31s\"; this program has ref, cpu, simt, lib, ggml, cuda and hip",
                 m->provider);
        return;
    }
    m->status = c->provider->open(arg[0] ? arg : NULL, &c->state, &err);
    snprintf(m->text, sizeof m->text, "%s", m->status ? err.msg : c->provider->words ? c->provider->words(c->state) : "");
    if (m->status)
        c->provider = NULL;
}

static void map_arena(struct child *c, const struct td_proto_msg *m, int fd)
{
    void *map = MAP_FAILED;

    forget_prepared(c);
    c->watch.note = NULL;
    if (c->arena)
        munmap(c->arena, c->arena_size);
    c->arena = NULL;
    if (fd >= 0 && m->size >= sizeof *c->arena && m->size <= TD_PROTO_ARENA_MAX)
        map = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (map == MAP_FAILED)
        return; /* the next RUN reports that there is no arena */
    c->arena = map;
    c->arena_size = m->size;
    c->watch.note = c->arena->fault;
    c->watch.note_bytes = sizeof c->arena->fault;
}

static void serve_request(struct child *c, struct td_proto_msg *m)
{
    if (m->type != TD_PROTO_HELLO && !c->provider) {
        set_answer(m, TD_PROTO_FAILED, "HELLO comes first");
        return;
    }
    m->status = TD_PROTO_OK;
    switch (m->type) {
    case TD_PROTO_HELLO: serve_hello(c, m); break;
    case TD_PROTO_RUN: serve_run(c, m); break;
    case TD_PROTO_PREPARE: serve_prepare(c, m); break;
    case TD_PROTO_TIME: serve_time(c, m); break;
    case TD_PROTO_RELEASE: forget_prepared(c); break;
    default: set_answer(m, TD_PROTO_FAILED, "a message of an unknown type");
    }
    if (c->arena)
        enter_stage(c, TD_STAGE_IDLE, 0);
    m->flags &= TD_PROTO_VARIES;
    m->size = held_bytes(c);
    if (c->provider && c->provider->is_dead && c->provider->is_dead(c->state))
        m->flags |= TD_PROTO_LAST;
}

/* Execute this program again on the same socket: fresh memory, the build loaded again, and no fork
 * of a large parent. */
static void restart_process(const struct child *c)
{
    char fd[16];
    char name[] = "replay-child", mode[] = "--child";
    char *argv[] = {name, mode, fd, NULL};

    snprintf(fd, sizeof fd, "%d", c->sock);
    execv("/proc/self/exe", argv);
    _exit(TD_EXIT_BROKEN);
}

int td_child_serve(int sock)
{
    static struct child c; /* static: the signal handler reads its guards */
    struct td_proto_msg m;
    struct td_error err = {0};
    int fd, rc = TD_OK;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}); /* a crash is a result, not a reason to fill the disk */
    signal(SIGINT, SIG_IGN);                        /* Ctrl-C is for the parent to handle */
    c.sock = sock;
    c.watch = (struct td_child_fault_watch){
        .guards = c.guards, .roles = (const char(*)[TD_OP_MAX_ROLE])c.roles, .n_guards = N_GUARDS};
    rc = td_child_fault_install(&c.watch, &err);
    while (!rc && !(rc = td_proto_recv(sock, &m, &fd, -1, &err)) && m.type != TD_PROTO_BYE) {
        if (m.type == TD_PROTO_ARENA) {
            map_arena(&c, &m, fd);
            continue;
        }
        if (fd >= 0)
            close(fd);
        if (m.type == TD_PROTO_RESTART)
            restart_process(&c);
        serve_request(&c, &m);
        rc = td_proto_send(sock, &m, -1, &err);
        if (m.flags & TD_PROTO_LAST)
            _exit(TD_EXIT_OK);
    }
    if (rc == TD_OK && c.provider) {
        forget_prepared(&c);
        c.provider->close(c.state);
    }
    return rc ? TD_EXIT_BROKEN : TD_EXIT_OK;
}
