/* tap_client.c - the life of the connections to a server's taps: open, arm, disarm, close.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Two threads stand beside the caller's (client_pump.h). Messages to the taps are sent by the
 * caller's thread, and by the pump when a signal asks for a dump of the flight recorder: the mutex
 * `talk` keeps them apart. */
#include "recorder/tap_client/tap_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/memory.h"
#include "recorder/tap_client/client_facts.h"
#include "recorder/tap_client/client_ledger.h"
#include "recorder/tap_client/client_pump.h"
#include "recorder/tap_client/ask_flight_dump.h"
#include "recorder/tap_client/missing_ops.h"
#include "recorder/tap_client/process_model.h"
#include "recorder/tap_client/proc_files.h"
#include "recorder/tap_client/read_steps.h"
#include "recorder/tap_client/read_weights.h"
#include "recorder/tap_client/server_images.h"
#include "recorder/tap_client/wanted_layers.h"

#define DEFAULT_RINGS 4
#define DEFAULT_RING_BYTES (16LL << 20)
#define GPU_RINGS 2                   /* one thread sends what the GPU did; prompts of thousands of
                                         rows are one op */
#define GPU_RING_BYTES (64LL << 20)
#define GPU_ALL_RING_BYTES (256LL << 20) /* every step: a burst of a long prompt must find room */
#define BUSY_MS 2000                  /* a recorder that ends, or was killed, may take so long */
#define ANSWER_MS 20000               /* longer than the tap's own patience */

/* A mutex is not fair: a pump with much to do would lock it again before another thread wakes up.
 * `waiting` makes it pause. */
static void lock(struct td_tap_client *c)
{
    atomic_fetch_add(&c->waiting, 1);
    pthread_mutex_lock(&c->lock);
    atomic_fetch_sub(&c->waiting, 1);
}

static void unlock(struct td_tap_client *c)
{
    pthread_mutex_unlock(&c->lock);
}

/* ---- open ------------------------------------------------------------------------------------ */

/* Open the checkpoint that the user named, or the one that the server's command line names. */
static void open_checkpoint(struct td_tap_client *c, pid_t pid)
{
    char path[4096], real[4096];
    struct td_error err = {0};
    const char *from = c->opt.checkpoint;

    if (!from || !realpath(from, real))
        from = client_process_model(pid, path, sizeof path) ? path : NULL;
    else
        from = real;
    if (!from)
        c->why_no_layers =
            strdup("no checkpoint known; give --checkpoint DIR (of llama.cpp: its GGUF file)");
    else if (td_layer_index_open(from, &c->layers, &err))
        c->why_no_layers = strdup(err.msg);
    snprintf(c->state.no_layer_names, sizeof c->state.no_layer_names, "%s",
             c->why_no_layers ? c->why_no_layers : "");
}

/* The size of a ring: `bytes`, or what is left of it when the rings of all processes together take
 * half of the memory that there is for all. */
static uint64_t fit_ring(int64_t rings, int64_t bytes, int processes)
{
    const int64_t most = td_memory_max() / 2 / (rings * processes) / TAP_PAGE * TAP_PAGE;

    if (bytes <= most || bytes <= TAP_MIN_RING_BYTES)
        return tap_round_up((uint64_t)bytes, TAP_PAGE);
    bytes = most > TAP_MIN_RING_BYTES ? most : TAP_MIN_RING_BYTES;
    td_log(TD_LOG_WARN, "tap",
           "the tap gets rings of %lld KiB, for want of memory; --max-memory SIZE allows more",
           (long long)(bytes >> 10));
    return (uint64_t)bytes;
}

/* Share as much memory as the options ask for; else what a GPU needs where there is one, and less
 * without. A sample may miss an op, and takes less of the GPU's memory. */
static int share_memory(const struct td_tap_client *c, struct client_tap *tap, int processes,
                        struct td_error *err)
{
    bool gpu = strstr(tap->fronts, "cuda") || strstr(tap->fronts, "hip");
    int64_t rings = c->opt.rings > 0 ? c->opt.rings : gpu ? GPU_RINGS : DEFAULT_RINGS;
    int64_t bytes = c->opt.ring_bytes > 0 ? c->opt.ring_bytes
                    : gpu                 ? (c->opt.every_step ? GPU_ALL_RING_BYTES : GPU_RING_BYTES)
                                          : DEFAULT_RING_BYTES;

    return client_tap_attach(tap, (uint32_t)rings, fit_ring(rings, bytes, processes), err);
}

static int send_rows(const struct td_tap_client *c, struct client_tap *tap, struct td_error *err)
{
    return c->opt.rows ? client_tap_send_rows(tap, c->opt.rows, c->opt.n_rows, err) : TD_OK;
}

static int check_rings(const struct td_tap_client_options *o, struct td_error *err)
{
    if (o->rings <= (int)TAP_MAX_RINGS &&
        (o->ring_bytes <= 0 ||
         (o->ring_bytes >= TAP_MIN_RING_BYTES && o->ring_bytes <= TAP_MAX_RING_BYTES)))
        return TD_OK;
    return td_fail(err, TD_EINVAL, "%d rings of %lld bytes: at most %u, of %u to %u bytes",
                   o->rings, (long long)o->ring_bytes, TAP_MAX_RINGS, TAP_MIN_RING_BYTES,
                   TAP_MAX_RING_BYTES);
}

/* Connect to a tap. Wait a moment where another recorder still is: it may be about to end.
 *   until : of all taps together; 0: none was busy yet */
static int greet(const struct td_tap_client *c, struct client_tap *tap, const struct client_found *at,
                 int64_t *until, struct td_error *err)
{
    int rc;

    while ((rc = client_tap_greet(tap, at, err)) == TD_EEXIST) {
        if (!*until)
            *until = td_clock_mono_ns() + BUSY_MS * TD_NS_PER_MS;
        if (td_clock_mono_ns() >= *until || (c->opt.stop && *c->opt.stop))
            break;
        td_error_clear(err);
        td_clock_sleep_until(td_clock_mono_ns() + 50 * TD_NS_PER_MS);
    }
    return rc;
}

/* Connect to all that were found. One good connection is enough, and the others are counted as
 * lost; without one, *err holds the first reason. */
static int connect_all(struct td_tap_client *c, const struct client_found *found, int n,
                       struct td_error *err)
{
    struct { pid_t pid; char why[200]; } lost[CLIENT_MAX_TAPS];
    int i, n_lost = 0, rc = check_rings(&c->opt, err);
    int64_t busy_until = 0;

    if (rc)
        return rc;
    for (i = 0; i < n; i++) {
        struct client_tap *tap = &c->tap[c->n];
        struct td_error why = {0};

        rc = greet(c, tap, &found[i], &busy_until, &why);
        if (!rc && ((rc = share_memory(c, tap, n, &why)) || (rc = send_rows(c, tap, &why))))
            client_tap_close(tap);
        if (!rc) {
            c->n++;
            continue;
        }
        td_log(TD_LOG_INFO, "tap", "%s", why.msg);
        td_fail(err, rc, "%s", why.msg);
        if (client_has_ended(found[i].pid)) /* its socket still lies there */
            continue;
        lost[n_lost].pid = found[i].pid;
        snprintf(lost[n_lost++].why, sizeof lost->why, "%.199s", why.msg);
    }
    if (!c->n)
        return err && err->code ? err->code : rc;
    for (i = 0; i < n_lost; i++)
        client_note_not_recorded(c, lost[i].pid, lost[i].why);
    td_error_clear(err);
    return TD_OK;
}

/* A server with more processes than we connect to: its other processes go unrecorded. */
static void note_left_out(struct td_tap_client *c, int left_out)
{
    if (!left_out)
        return;
    td_log(TD_LOG_WARN, "tap",
           "%d processes of the server are not recorded: it has %d with a tap, and at most %d can "
           "be",
           left_out, left_out + CLIENT_MAX_TAPS, CLIENT_MAX_TAPS);
    td_writer_count(c->opt.writer, "links.left_out", left_out, 0);
    c->state.links_lost += left_out;
}

/* Go on while there is time: a socket may be that of a process that ended. *pid : a process of the
 * server, or 0 */
static int find_and_connect(struct td_tap_client *c, const struct td_tap_client_target *target,
                            pid_t *pid, struct td_error *err)
{
    int64_t until = td_clock_mono_ns() + target->wait_ms * TD_NS_PER_MS;
    struct client_found found[CLIENT_MAX_TAPS];
    struct td_error last = {0};
    struct client_missed missed;
    int n, rc;

    for (;;) {
        td_error_clear(&last);
        rc = client_find_taps(target, found, &n, &missed, &last);
        if (!rc) {
            *pid = found[0].pid;
            rc = connect_all(c, found, n, &last);
        }
        if (rc != TD_ENOTFOUND || td_clock_mono_ns() >= until)
            break;
        td_clock_sleep_until(td_clock_mono_ns() + 50 * TD_NS_PER_MS);
    }
    if (!rc)
        note_left_out(c, missed.left_out);
    if (!rc && missed.deaf)
        client_note_not_recorded(c, missed.first_deaf, "its tap has no socket");
    return rc ? td_fail(err, rc, "%s", last.msg) : TD_OK;
}

int td_tap_client_open(const struct td_tap_client_target *target,
                       const struct td_tap_client_options *opt, struct td_tap_client **out,
                       struct td_error *err)
{
    struct td_tap_client *c = calloc(1, sizeof *c);
    pid_t pid = 0;
    int rc;

    *out = NULL;
    if (!c)
        return td_fail(err, TD_ENOMEM, "out of memory");
    c->opt = *opt;
    if (opt->nonce)
        snprintf(c->nonce, sizeof c->nonce, "%s", opt->nonce);
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_init(&c->talk, NULL);
    rc = opt->wanted_layers ? td_layer_filter_new(opt->wanted_layers, &c->filter, err) : TD_OK;
    if (!rc)
        rc = find_and_connect(c, target, &pid, err);
    if (!rc) {
        c->state.processes = c->state.alive = c->n;
        open_checkpoint(c, pid ? pid : c->tap[0].pid);
        rc = client_pump_start(c, err);
    }
    if (rc) {
        td_tap_client_close(c, NULL);
        return rc;
    }
    *out = c;
    return TD_OK;
}

/* ---- arm and disarm -------------------------------------------------------------------------- */

/* The tap did what was asked, and may add what the user should know. */
static void note_answer(struct td_tap_client *c, struct client_tap *tap, const char *text)
{
    if (!text[0])
        return;
    snprintf(tap->remark, sizeof tap->remark, "%s", text);
    td_log(TD_LOG_WARN, "tap", "process %d: %s", (int)tap->pid, text);
    free(c->unseen);
    c->unseen = strdup(text);
}

/* Send a message from the caller's thread. */
static int ask(struct td_tap_client *c, struct client_tap *tap, struct tap_msg *m,
               struct tap_msg *reply, struct td_error *err)
{
    int rc;

    pthread_mutex_lock(&c->talk);
    rc = client_tap_ask(tap, m, reply, ANSWER_MS, err);
    pthread_mutex_unlock(&c->talk);
    return rc;
}

static void warn_flight(const struct client_tap *tap, uint32_t wanted, uint32_t got)
{
    if (wanted && !strstr(tap->fronts, "cuda"))
        td_log(TD_LOG_WARN, "tap",
               "process %d: --flight records launches on an NVIDIA GPU, and none was seen here; "
               "GEMMs are recorded without it",
               (int)tap->pid);
    else if (got && got < wanted)
        td_log(
            TD_LOG_WARN, "tap",
            "process %d: the flight recorder has %u MiB instead of %u; no more is free on the GPU",
            (int)tap->pid, got, wanted);
}

static int arm_one(struct td_tap_client *c, struct client_tap *tap, struct tap_msg m,
                   struct td_error *err)
{
    struct tap_msg reply;
    int rc = tap->alive ? ask(c, tap, &m, &reply, err)
                        : td_fail(err, TD_EIO, "process %d of the server is gone", (int)tap->pid);

    lock(c);
    tap->armed = rc ? 0 : reply.generation;
    unlock(c);
    if (!rc) {
        warn_flight(tap, m.flight_mib, reply.flight_mib);
        note_answer(c, tap, reply.text);
    }
    return rc;
}

int td_tap_client_arm(struct td_tap_client *c, const struct td_tap_client_mode *mode,
                      struct td_error *err)
{
    struct tap_msg m = {.type = TAP_ARM,
                        .mode = mode->steps == TD_TAP_CLIENT_ALL ? TAP_MODE_ALL : TAP_MODE_SAMPLE};
    double percent = mode->percent > 0 ? mode->percent : TD_TAP_CLIENT_DEFAULT_PERCENT;
    struct td_error why[CLIENT_MAX_TAPS] = {0}, *first = NULL;
    int i, armed = 0, rc[CLIENT_MAX_TAPS] = {0};

    if (mode->steps == TD_TAP_CLIENT_OFF)
        return td_tap_client_disarm(c, err);
    m.percent_ppm = percent >= 100 ? 1000000 : (uint32_t)(percent * 1e4 + 0.5);
    m.time_ppm = mode->time_ppm;
    m.flight_mib = mode->flight_mib;
    m.no_launches = mode->no_launches;
    m.kinds = mode->all_kinds ? TAP_KINDS_ALL : TAP_KINDS_GEMM;
    m.budget_bytes_per_s =
        mode->budget_bytes_per_s ? mode->budget_bytes_per_s : TD_TAP_CLIENT_DEFAULT_BUDGET;
    for (i = 0; i < c->n; i++) {
        rc[i] = arm_one(c, &c->tap[i], m, &why[i]);
        armed += !rc[i];
        first = rc[i] && !first ? &why[i] : first;
    }
    if (!armed)
        return td_fail(err, first ? first->code : TD_ENOTFOUND, "%s",
                       first ? first->msg : "no tap is connected");
    lock(c);
    for (i = 0; i < c->n; i++) /* one that hung up is lost anyway */
        if (rc[i] && c->tap[i].alive && !client_tap_hung_up(&c->tap[i]))
            client_note_not_recorded(c, c->tap[i].pid, why[i].msg);
    c->mode = *mode;
    c->mode.percent = percent;
    c->mode.budget_bytes_per_s = m.budget_bytes_per_s;
    c->state.armed = true;
    c->state.no_launches = mode->no_launches;
    unlock(c);
    return TD_OK;
}

void td_tap_client_rehearse(struct td_tap_client *c, bool begins)
{
    lock(c);
    c->outputs.rehearses = begins;
    unlock(c);
}

static int disarm_one(struct td_tap_client *c, struct client_tap *tap, struct td_error *err)
{
    struct tap_msg m = {.type = TAP_DISARM}, reply = {0};
    int rc = TD_OK;

    if (tap->alive && !client_tap_hung_up(tap))
        rc = ask(c, tap, &m, &reply, err);
    if (!rc)
        note_answer(c, tap, reply.text);
    lock(c);
    tap->armed = 0;
    if (tap->alive && client_tap_hung_up(tap)) {
        client_lose(c, tap);
        rc = TD_OK;
    }
    client_drain_all(c, tap);
    unlock(c);
    return rc;
}

int td_tap_client_disarm(struct td_tap_client *c, struct td_error *err)
{
    struct td_error why = {0};
    int i;

    for (i = 0; i < c->n; i++)
        disarm_one(c, &c->tap[i], &why);
    lock(c);
    c->state.armed = false;
    unlock(c);
    return why.code ? td_fail(err, why.code, "%s", why.msg) : TD_OK;
}

bool td_tap_client_gpu_time_begin(struct td_tap_client *c, int ms)
{
    int i, opened = 0;

    pthread_mutex_lock(&c->talk);
    for (i = 0; i < c->n; i++) {
        struct client_tap *tap = &c->tap[i];

        tap->times = tap->alive && !tap->armed && strstr(tap->fronts, "cuda") &&
                     client_shares_begin(&c->shares, tap, (uint32_t)ms);
        opened += tap->times;
    }
    pthread_mutex_unlock(&c->talk);
    return opened;
}

void td_tap_client_gpu_time_end(struct td_tap_client *c)
{
    int i;

    pthread_mutex_lock(&c->talk);
    for (i = 0; i < c->n; i++)
        if (c->tap[i].times && c->tap[i].alive)
            client_shares_end(&c->shares, &c->tap[i]);
    client_shares_sort(&c->shares);
    pthread_mutex_unlock(&c->talk);
}

bool td_tap_client_add_answer(struct td_tap_client *c, const char *id, int64_t stream, int64_t from_ns, int64_t to_ns)
{
    bool added;

    lock(c);
    added = client_server_ids_add(&c->ids, id, stream, from_ns, to_ns);
    unlock(c);
    return added;
}

void td_tap_client_name_rows(struct td_tap_client *c, struct td_rows_request *requests, size_t n)
{
    if (!c)
        return;
    lock(c);
    client_name_held(c, requests, n);
    client_write_held(c);
    unlock(c);
}

static void release_tap(struct client_tap *tap)
{
    uint32_t i;

    for (i = 0; i < tap->rings; i++)
        client_weights_release(&tap->ring[i]);
    client_tap_close(tap);
}

/* Write the last ops and steps, and the facts that cover all of the recording. The threads have
 * ended. */
static void write_rest(struct td_tap_client *c)
{
    int i;

    for (i = 0; i < c->n; i++)
        client_drain_all(c, &c->tap[i]);
    client_write_held(c);
    if (c->unseen)
        td_writer_fact_str(c->opt.writer, "tap", "unseen", c->unseen);
    client_kernels_facts(&c->kernels, c->opt.writer);
    client_operators_facts(&c->operators, c->opt.writer);
    client_shares_facts(&c->shares, c->opt.writer);
    client_images_store(c);
    client_flight_facts(&c->flight, c->mode.flight_mib, c->opt.writer);
}

static void free_client(struct td_tap_client *c)
{
    int i;

    for (i = 0; i < c->n; i++)
        release_tap(&c->tap[i]);
    client_kernels_release(&c->kernels);
    client_operators_release(&c->operators);
    client_shares_release(&c->shares);
    client_outputs_release(&c->outputs);
    client_server_ids_release(&c->ids);
    td_layer_index_close(c->layers);
    td_layer_filter_free(c->filter);
    free(c->why_no_layers);
    free(c->unseen);
    pthread_mutex_destroy(&c->talk);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

int td_tap_client_end(struct td_tap_client *c, struct td_error *err)
{
    struct td_error why = {0};

    if (!c || c->ended)
        return TD_OK;
    if (c->state.armed)
        td_tap_client_disarm(c, &why);
    client_pump_stop(c);
    c->pumping = c->beating = false;
    write_rest(c);
    client_note_missing_ops(c);
    c->ended = true;
    if (c->failed.code)
        why = c->failed;
    return why.code ? td_fail(err, why.code, "%s", why.msg) : TD_OK;
}

int td_tap_client_close(struct td_tap_client *c, struct td_error *err)
{
    int rc;

    if (!c)
        return TD_OK;
    rc = td_tap_client_end(c, err);
    free_client(c);
    return rc;
}

/* ---- questions ------------------------------------------------------------------------------- */

bool td_tap_client_dump_flight(struct td_tap_client *c)
{
    bool busy;

    return c->mode.flight_mib && client_dump_flight(c, TAP_DUMP_COLLAPSE, &busy);
}

bool td_tap_client_first_bad(struct td_tap_client *c, char *to, size_t n)
{
    bool found;

    lock(c);
    found = client_flight_describe_bad(&c->flight, to, n);
    unlock(c);
    return found;
}

bool td_tap_client_report_layers(struct td_tap_client *c, char *to, size_t n)
{
    bool some;

    lock(c);
    some = client_report_layers(c, to, n);
    unlock(c);
    return some;
}

void td_tap_client_state(struct td_tap_client *c, struct td_tap_client_state *out)
{
    lock(c);
    *out = c->state;
    out->steps_kept += (int64_t)c->n_held;
    out->all_kinds = c->mode.all_kinds;
    out->rows_forgotten = c->ids.rows_forgotten;
    out->rehearsed = c->outputs.rehearsed;
    out->rehearsal_full = c->outputs.full;
    client_kernels_state(&c->kernels, out);
    client_operators_state(&c->operators, out);
    client_shares_state(&c->shares, &out->gpu_time);
    unlock(c);
}

void td_tap_client_facts(struct td_tap_client *c, struct td_writer *w, const char *reason)
{
    if (!c) {
        client_facts_without(w, reason ? reason : "not asked for");
        return;
    }
    lock(c);
    client_facts_write(c, w);
    unlock(c);
}
