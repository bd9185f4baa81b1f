/* tap_client.c - the life of the links to a server's taps: open, arm, disarm, close.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Two threads stand beside the caller: the heart moves the heartbeat (it must not stop when the disk is slow), the pump empties
 * the rings. Messages to the taps are sent by the caller's thread alone. */
#include "recorder/tap_client/tap_client.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/proc.h"
#include "recorder/tap_client/client_state.h"

#define DEFAULT_RINGS 4
#define DEFAULT_RING_BYTES (16LL << 20)
#define GPU_RINGS 2                   /* one thread sends what the GPU did; prompts of thousands of rows are one op */
#define GPU_RING_BYTES (64LL << 20)
#define NAP_MIN_NS TD_NS_PER_MS
#define NAP_MAX_NS (5 * TD_NS_PER_MS)
#define ASLEEP_NS (20 * TD_NS_PER_MS)
#define ANSWER_MS 20000               /* longer than the tap's own patience */

/* ---- ids ----------------------------------------------------------------------------------------------------------- */

void td_tap_client_nonce(char out[TD_TAP_CLIENT_NONCE])
{
    uint64_t r = 0;

    if (getrandom(&r, sizeof r, 0) != sizeof r)
        r = (uint64_t)td_clock_mono_ns() * 0x9e3779b97f4a7c15u;
    snprintf(out, TD_TAP_CLIENT_NONCE, "%016llx", (unsigned long long)r);
}

void td_tap_client_request_id(const char *nonce, uint32_t stream, char out[TD_TAP_CLIENT_ID])
{
    snprintf(out, TD_TAP_CLIENT_ID, "td-%s-%u", nonce, stream);
}

int64_t td_tap_client_request_stream(const char *nonce, const char *id)
{
    char want[TD_TAP_CLIENT_ID];
    const char *p;
    char *end;
    unsigned long long v;

    snprintf(want, sizeof want, "td-%s-", nonce);
    p = strstr(id, want);
    if (!p)
        return -1;
    p += strlen(want);
    if (*p < '0' || *p > '9')
        return -1;
    errno = 0;
    v = strtoull(p, &end, 10);
    return errno || v > UINT32_MAX || (*end && *end != '-' && *end != '_') ? -1 : (int64_t)v;
}

/* ---- the lock ------------------------------------------------------------------------------------------------------ */

/* A mutex is not fair: a pump with much to do would take it again before anybody else wakes up. */
static void lock(struct td_tap_client *l)
{
    atomic_fetch_add(&l->waiting, 1);
    pthread_mutex_lock(&l->lock);
    atomic_fetch_sub(&l->waiting, 1);
}

static void unlock(struct td_tap_client *l)
{
    pthread_mutex_unlock(&l->lock);
}

/* ---- threads ------------------------------------------------------------------------------------------------------- */

static void *beat(void *arg)
{
    struct td_tap_client *l = arg;

    while (!atomic_load(&l->stop)) {
        int i;

        for (i = 0; i < l->n; i++)
            atomic_fetch_add(&l->link[i].shared->heartbeat, 1);
        td_clock_sleep_until(td_clock_mono_ns() + TAP_BEAT_MS * TD_NS_PER_MS / 2);
    }
    return NULL;
}

static bool hung_up(const struct client_tap *lk)
{
    struct pollfd p = {lk->fd, POLLRDHUP, 0};

    return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

static void drain_all(struct td_tap_client *l, struct client_tap *lk)
{
    while (client_drain(l, lk))
        ;
    client_count(l, lk);
}

static void lose(struct td_tap_client *l, struct client_tap *lk)
{
    drain_all(l, lk);                 /* what it sent before it died is whole */
    lk->alive = false;
    lk->armed = 0;
    l->state.alive--;
    td_writer_count(l->opt.writer, "links.lost", 1, 0);
    td_log(TD_LOG_WARN, "tap", "process %d of the server is gone", (int)lk->pid);
}

static void look_after(struct td_tap_client *l, struct client_tap *lk)
{
    client_count(l, lk);
    if (!lk->alive)
        return;
    if (hung_up(lk)) {
        lose(l, lk);
    } else if (lk->armed && !atomic_load(&lk->shared->armed) && atomic_load(&lk->shared->why_asleep) == TAP_ASLEEP_HEARTBEAT) {
        lk->armed = 0;
        td_writer_count(l->opt.writer, "links.disarmed", 1, 0);
        td_log(TD_LOG_WARN, "tap", "process %d: the tap went to sleep by itself, it saw no heartbeat for %d ms", (int)lk->pid, TAP_DEAD_MS);
    }
}

/* Each waking takes a core from the server for a moment: the fuller the fullest ring was, the sooner the next. */
static int64_t next_nap(int64_t nap_ns, double full)
{
    nap_ns = full > 0.125 ? nap_ns / 4 : nap_ns * 2;
    return nap_ns < NAP_MIN_NS ? NAP_MIN_NS : nap_ns > NAP_MAX_NS ? NAP_MAX_NS : nap_ns;
}

static void *pump(void *arg)
{
    struct td_tap_client *l = arg;
    int64_t looked = 0, nap_ns = NAP_MIN_NS;

    td_proc_give_way();
    while (!atomic_load(&l->stop)) {
        int64_t now = td_clock_mono_ns();
        bool armed = false, more = false;
        double full = 0;
        int i;

        pthread_mutex_lock(&l->lock);
        for (i = 0; i < l->n; i++) {
            full = fmax(full, client_full(&l->link[i]));
            more |= client_drain(l, &l->link[i]) >= CLIENT_DRAIN_MAX;
            armed |= l->link[i].armed != 0;
            if (now - looked > 100 * TD_NS_PER_MS)
                look_after(l, &l->link[i]);
        }
        pthread_mutex_unlock(&l->lock);
        client_flight_poll(l);
        if (now - looked > 100 * TD_NS_PER_MS)
            looked = now;
        nap_ns = next_nap(nap_ns, full);
        if (!more || atomic_load(&l->waiting))
            td_clock_sleep_until(td_clock_mono_ns() + (armed ? nap_ns : ASLEEP_NS));
    }
    return NULL;
}

/* ---- open ---------------------------------------------------------------------------------------------------------- */

static void open_layers(struct td_tap_client *l, pid_t pid)
{
    char path[4096], real[4096];
    struct td_error err = {0};
    const char *from = l->opt.checkpoint;

    if (!from || !realpath(from, real))
        from = client_model_path(pid, path, sizeof path) ? path : NULL;
    else
        from = real;
    if (!from)
        l->why_no_layers = strdup("no checkpoint known; give --checkpoint DIR (of llama.cpp: its GGUF file)");
    else if (td_layer_index_open(from, &l->layers, &err))
        l->why_no_layers = strdup(err.msg);
}

/* With as much memory as was asked for; unasked, with what a GPU needs where there is one. */
static int attach(const struct td_tap_client *l, struct client_tap *lk, struct td_error *err)
{
    bool gpu = strstr(lk->fronts, "cuda") || strstr(lk->fronts, "hip");
    int64_t rings = l->opt.rings > 0 ? l->opt.rings : gpu ? GPU_RINGS : DEFAULT_RINGS;
    int64_t bytes = l->opt.ring_bytes > 0 ? l->opt.ring_bytes : gpu ? GPU_RING_BYTES : DEFAULT_RING_BYTES;

    return client_attach(lk, (uint32_t)rings, tap_round((uint64_t)bytes, TAP_PAGE), err);
}

static int check_rings(const struct td_tap_client_options *o, struct td_error *err)
{
    if (o->rings <= (int)TAP_MAX_RINGS && (o->ring_bytes <= 0 || (o->ring_bytes >= TAP_MIN_RING_BYTES && o->ring_bytes <= TAP_MAX_RING_BYTES)))
        return TD_OK;
    return td_fail(err, TD_EINVAL, "%d rings of %lld bytes: at most %u, of %u to %u bytes", o->rings, (long long)o->ring_bytes, TAP_MAX_RINGS, TAP_MIN_RING_BYTES,
                   TAP_MAX_RING_BYTES);
}

static int client_all(struct td_tap_client *l, const struct client_found *found, int n, struct td_error *err)
{
    int i, rc = check_rings(&l->opt, err);

    if (rc)
        return rc;
    for (i = 0; i < n; i++) {
        struct client_tap *lk = &l->link[l->n];
        struct td_error why = {0};

        rc = client_greet(lk, &found[i], &why);
        if (!rc && (rc = attach(l, lk, &why)))
            client_release(lk);
        if (!rc)
            l->n++;
        else if (td_log(TD_LOG_INFO, "tap", "%s", why.msg), true)
            td_fail(err, rc, "%s", why.msg);
    }
    if (!l->n)
        return err && err->code ? err->code : rc;
    td_error_clear(err);
    return TD_OK;
}

static int start_threads(struct td_tap_client *l, struct td_error *err)
{
    l->beating = !pthread_create(&l->heart, NULL, beat, l);
    l->pumping = !pthread_create(&l->pump, NULL, pump, l);
    return l->beating && l->pumping ? TD_OK : td_fail(err, TD_EIO, "cannot start a thread");
}

/* A socket of a process that ended is no reason to give up while there is time. */
static int find_and_link(struct td_tap_client *l, const struct td_tap_client_target *target, pid_t *pid, struct td_error *err)
{
    int64_t until = td_clock_mono_ns() + target->wait_ms * TD_NS_PER_MS;
    struct client_found found[CLIENT_MAX];
    struct td_error last = {0};
    int n, rc;

    for (;;) {
        td_error_clear(&last);
        rc = client_find(target, found, &n, &last);
        if (!rc) {
            *pid = found[0].pid;
            rc = client_all(l, found, n, &last);
        }
        if (rc != TD_ENOTFOUND || td_clock_mono_ns() >= until)
            break;
        td_clock_sleep_until(td_clock_mono_ns() + 50 * TD_NS_PER_MS);
    }
    return rc ? td_fail(err, rc, "%s", last.msg) : TD_OK;
}

int td_tap_client_open(const struct td_tap_client_target *target, const struct td_tap_client_options *opt, struct td_tap_client **out, struct td_error *err)
{
    struct td_tap_client *l = calloc(1, sizeof *l);
    pid_t pid = 0;
    int rc;

    *out = NULL;
    if (!l)
        return td_fail(err, TD_ENOMEM, "out of memory");
    l->opt = *opt;
    if (opt->nonce)
        snprintf(l->nonce, sizeof l->nonce, "%s", opt->nonce);
    pthread_mutex_init(&l->lock, NULL);
    pthread_mutex_init(&l->talk, NULL);
    rc = opt->wanted_layers ? td_layer_filter_new(opt->wanted_layers, &l->filter, err) : TD_OK;
    if (!rc)
        rc = find_and_link(l, target, &pid, err);
    if (!rc) {
        l->state.processes = l->state.alive = l->n;
        open_layers(l, pid ? pid : l->link[0].pid);
        rc = start_threads(l, err);
    }
    if (rc) {
        td_tap_client_close(l, NULL);
        return rc;
    }
    *out = l;
    return TD_OK;
}

/* ---- arm and disarm ------------------------------------------------------------------------------------------------ */

/* Done, but: what the user should know. */
static void keep_said(struct td_tap_client *l, const struct client_tap *lk, const char *text)
{
    if (!text[0])
        return;
    td_log(TD_LOG_WARN, "tap", "process %d: %s", (int)lk->pid, text);
    free(l->unseen);
    l->unseen = strdup(text);
}

static int ask(struct td_tap_client *l, struct client_tap *lk, struct tap_msg *m, struct tap_msg *reply, struct td_error *err)
{
    int rc;

    pthread_mutex_lock(&l->talk);
    rc = client_ask(lk, m, reply, ANSWER_MS, err);
    pthread_mutex_unlock(&l->talk);
    return rc;
}

static void say_flight(const struct client_tap *lk, uint32_t wanted, uint32_t got)
{
    if (wanted && !strstr(lk->fronts, "cuda"))
        td_log(TD_LOG_WARN, "tap", "process %d: --flight records launches on an NVIDIA GPU, and none was seen here; GEMMs are recorded without it", (int)lk->pid);
    else if (got && got < wanted)
        td_log(TD_LOG_WARN, "tap", "process %d: the flight recorder has %u MiB instead of %u, no more are free on the GPU", (int)lk->pid, got, wanted);
}

static int arm_one(struct td_tap_client *l, struct client_tap *lk, struct tap_msg m, struct td_error *err)
{
    struct tap_msg reply;
    int rc = lk->alive ? ask(l, lk, &m, &reply, err) : td_fail(err, TD_EIO, "process %d of the server is gone", (int)lk->pid);

    lock(l);
    lk->armed = rc ? 0 : reply.generation;
    unlock(l);
    if (!rc) {
        say_flight(lk, m.flight_mib, reply.flight_mib);
        keep_said(l, lk, reply.text);
    }
    return rc;
}

int td_tap_client_arm(struct td_tap_client *l, const struct td_tap_client_mode *mode, struct td_error *err)
{
    struct tap_msg m = {.type = TAP_ARM, .mode = mode->take == TD_TAP_CLIENT_ALL ? TAP_MODE_ALL : TAP_MODE_SAMPLE};
    double percent = mode->percent > 0 ? mode->percent : TD_TAP_CLIENT_DEFAULT_PERCENT;
    struct td_error why = {0};
    int i, armed = 0;

    if (mode->take == TD_TAP_CLIENT_OFF)
        return td_tap_client_disarm(l, err);
    m.percent_ppm = percent >= 100 ? 1000000 : (uint32_t)(percent * 1e4 + 0.5);
    m.time_ppm = mode->time_ppm;
    m.flight_mib = mode->flight_mib;
    m.kinds = mode->all_kinds ? TAP_KINDS_ALL : TAP_KINDS_GEMM;
    m.budget_bytes_per_s = mode->budget_bytes_per_s ? mode->budget_bytes_per_s : TD_TAP_CLIENT_DEFAULT_BUDGET;
    for (i = 0; i < l->n; i++)
        armed += !arm_one(l, &l->link[i], m, &why);
    if (!armed)
        return td_fail(err, why.code, "%s", why.msg);
    lock(l);
    l->mode = *mode;
    l->mode.percent = percent;
    l->mode.budget_bytes_per_s = m.budget_bytes_per_s;
    l->state.armed = true;
    unlock(l);
    return TD_OK;
}

static int disarm_one(struct td_tap_client *l, struct client_tap *lk, struct td_error *err)
{
    struct tap_msg m = {.type = TAP_DISARM}, reply = {0};
    int rc = TD_OK;

    if (lk->alive && !hung_up(lk))
        rc = ask(l, lk, &m, &reply, err);
    if (!rc)
        keep_said(l, lk, reply.text);
    lock(l);
    lk->armed = 0;
    if (lk->alive && hung_up(lk)) {
        lose(l, lk);
        rc = TD_OK;
    }
    drain_all(l, lk);
    unlock(l);
    return rc;
}

int td_tap_client_disarm(struct td_tap_client *l, struct td_error *err)
{
    struct td_error why = {0};
    int i;

    for (i = 0; i < l->n; i++)
        disarm_one(l, &l->link[i], &why);
    lock(l);
    l->state.armed = false;
    unlock(l);
    return why.code ? td_fail(err, why.code, "%s", why.msg) : TD_OK;
}

void td_tap_client_name_rows(struct td_tap_client *l, struct td_rows_request *requests, size_t n)
{
    if (!l)
        return;
    lock(l);
    client_name_held(l, requests, n);
    client_write_held(l);
    unlock(l);
}

int td_tap_client_close(struct td_tap_client *l, struct td_error *err)
{
    struct td_error why = {0};
    int i;

    if (!l)
        return TD_OK;
    if (l->state.armed)
        td_tap_client_disarm(l, &why);
    atomic_store(&l->stop, true);
    if (l->beating)
        pthread_join(l->heart, NULL);
    if (l->pumping)
        pthread_join(l->pump, NULL);
    for (i = 0; i < l->n; i++)
        drain_all(l, &l->link[i]);
    client_write_held(l);
    client_kernels_facts(l);
    client_images_keep(l);
    for (i = 0; i < l->n; i++)
        client_release(&l->link[i]);
    client_flight_facts(l);
    client_kernels_release(l);
    td_layer_index_close(l->layers);
    td_layer_filter_free(l->filter);
    free(l->why_no_layers);
    pthread_mutex_destroy(&l->talk);
    pthread_mutex_destroy(&l->lock);
    if (l->failed.code)
        td_fail(err, l->failed.code, "%s", l->failed.msg);
    else if (why.code)
        td_fail(err, why.code, "%s", why.msg);
    i = l->failed.code ? l->failed.code : why.code;
    free(l);
    return i;
}

/* ---- what there is ------------------------------------------------------------------------------------------------- */

void td_tap_client_state(struct td_tap_client *l, struct td_tap_client_state *out)
{
    lock(l);
    *out = l->state;
    out->steps_kept += (int64_t)l->n_held;
    client_kernels_state(l, out);
    unlock(l);
}

static void fact(struct td_writer *w, const char *key, cJSON *value)
{
    td_writer_fact(w, "tap", key, value);
    cJSON_Delete(value);
}

static cJSON *describe_mode(const struct td_tap_client_mode *m)
{
    static const char *const name[] = {"off", "sample", "all"};
    cJSON *o = cJSON_CreateObject();

    cJSON_AddStringToObject(o, "take", name[m->take]);
    if (m->take == TD_TAP_CLIENT_SAMPLE)
        cJSON_AddNumberToObject(o, "percent", m->percent);
    if (m->take == TD_TAP_CLIENT_SAMPLE && m->time_ppm)
        cJSON_AddNumberToObject(o, "time_percent", m->time_ppm / 1e4);
    if (m->take != TD_TAP_CLIENT_OFF)
        cJSON_AddNumberToObject(o, "budget_bytes_per_s", (double)m->budget_bytes_per_s);
    if (m->take != TD_TAP_CLIENT_OFF)
        cJSON_AddStringToObject(o, "kinds", m->all_kinds ? "all" : "gemm");
    if (m->take != TD_TAP_CLIENT_OFF && m->flight_mib)
        cJSON_AddNumberToObject(o, "flight_mib", m->flight_mib);
    return o;
}

void td_tap_client_facts(struct td_tap_client *l, struct td_writer *w, const char *reason)
{
    cJSON *all;
    int i;

    fact(w, "present", cJSON_CreateBool(l != NULL));
    if (!l) {
        td_writer_fact_str(w, "tap", "reason", reason ? reason : "not asked for");
        return;
    }
    fact(w, "protocol", cJSON_CreateNumber(TAP_VERSION));
    fact(w, "pid", cJSON_CreateNumber(l->link[0].pid));
    td_writer_fact_str(w, "tap", "library", l->link[0].library);
    td_writer_fact_str(w, "tap", "build", l->link[0].build);
    lock(l);
    fact(w, "mode", describe_mode(&l->mode));
    unlock(l);
    td_writer_fact_str(w, "tap", "checkpoint", l->layers ? td_layer_index_path(l->layers) : "");
    if (l->why_no_layers)
        td_writer_fact_str(w, "tap", "no_layer_names", l->why_no_layers);
    all = cJSON_CreateArray();
    for (i = 0; i < l->n; i++) {
        cJSON *o = cJSON_CreateObject();

        cJSON_AddNumberToObject(o, "pid", l->link[i].pid);
        cJSON_AddStringToObject(o, "library", l->link[i].library);
        cJSON_AddStringToObject(o, "build", l->link[i].build);
        cJSON_AddStringToObject(o, "fronts", l->link[i].fronts);
        if (l->link[i].title[0])
            cJSON_AddStringToObject(o, "title", l->link[i].title);
        if (l->link[i].rank >= 0)
            cJSON_AddNumberToObject(o, "rank", l->link[i].rank);
        cJSON_AddItemToArray(all, o);
    }
    fact(w, "processes", all);
}
