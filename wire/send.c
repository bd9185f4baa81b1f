/* send.c - send a plan of requests: groups, deadlines, notes, bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/send.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/progress.h"
#include "wire/allowed_requests.h"
#include "wire/api_body.h"
#include "wire/client.h"
#include "wire/event_blocks.h"
#include "wire/open_files.h"
#include "wire/stream_notes.h"

#define STOPPED "stopped by the user"

struct sender {
    const struct td_plan *plan;
    const struct td_send_options *opt;
    struct td_send_stats *stats;
    struct td_client *client;
    struct td_deriver *deriver;   /* NULL: no exchanges are wanted; of the thread of `blocks` until that is drained */
    struct td_event_blocks *blocks;
    int rc;                       /* the first failure of what gets the records */
    struct td_error *err;
    int64_t start_ns;
    int64_t last_begun_ns;        /* when the last request was given to the client */
    int refused_groups, group_refused, group_ok;
    bool no_files;                /* this machine's limit of open files was reached */
    int silent_groups, group_silent; /* timed out */
    int64_t unheard, unheard_refused; /* requests that were refused or timed out, one after the other; refused of them */
    uint32_t loop_stream;         /* of the first request of the closed loop that is being sent */
    int64_t room;                 /* requests with times of their own that can be in flight */
    bool held;                    /* the next request waited for that */
    bool one_turn;                /* of the whole plan */
    struct td_progress progress;
    int64_t ended;
};

#define SHOW_EVERY_NS (2 * TD_NS_PER_S)

/* Have the writer and the deriver get all that came. The deriver's exchanges are emitted meanwhile. */
static void pass_on(struct sender *s)
{
    const int rc = td_event_blocks_drain(s->blocks, s->err);

    if (rc && !s->rc)
        s->rc = rc;
}

static int to_writer(void *arg, const struct td_wire *rec, struct td_error *err)
{
    const struct sender *s = arg;
    const int rc = td_writer_wire(s->opt->writer, rec);

    return rc ? td_fail(err, rc, "the fixture cannot be written") : TD_OK;
}

static int to_deriver(void *arg, const struct td_wire *rec, struct td_error *err)
{
    const struct sender *s = arg;

    return td_deriver_feed(s->deriver, rec, err);
}

/* The path of an event: count a record, and copy it. */
static void put_record(void *arg, const struct td_wire *rec)
{
    struct sender *s = arg;

    s->stats->records++;
    if (rec->dir == TD_WIRE_SENT)
        s->stats->bytes_sent += (int64_t)rec->len;
    else if (rec->dir == TD_WIRE_RECEIVED)
        s->stats->bytes_received += (int64_t)rec->len;
    td_event_blocks_put(s->blocks, rec);
}

static void put_note(struct sender *s, uint32_t stream, int64_t t_ns, const struct td_buf *b)
{
    struct td_wire rec = {.t_ns = t_ns, .stream = stream, .dir = TD_WIRE_NOTE, .data = (const uint8_t *)td_buf_str(b),
                          .len = b->len};

    put_record(s, &rec);
}

static const char *phase_name(enum td_phase phase)
{
    return phase == TD_PHASE_TAPPED ? "tapped" : phase == TD_PHASE_WARMUP ? "warmup" : "timed";
}

static void note_open(struct sender *s, uint32_t stream, const struct td_plan_item *it)
{
    const struct td_open_note note = {
        .prompt_id = it->prompt_id, .category = it->category, .phase = phase_name(it->phase),
        .api = *it->api ? it->api : td_api_name(s->opt->server->kind), .method = it->method, .path = it->path,
        .repeat = it->repeat, .concurrency = it->concurrency, .grouped = true, .group = it->group,
        .loop = it->loop ? s->loop_stream : 0, .role = it->role,
        .scored_from = it->scored_from, .due_ns = it->at_ns >= 0 ? s->start_ns + it->at_ns : 0, .held = s->held,
        .connection = s->opt->recorded_connections ? it->connection : 0};
    struct td_buf b = TD_BUF_INIT(1 << 20);

    td_open_note(&b, &note);
    put_note(s, stream, td_clock_mono_ns(), &b);
    td_buf_release(&b);
}

static void note_close(struct sender *s, uint32_t stream, int64_t t_ns, const char *kind, const char *error)
{
    struct td_buf b = TD_BUF_INIT(1 << 16);

    td_close_note(&b, kind, error);
    put_note(s, stream, t_ns, &b);
    td_buf_release(&b);
}

static bool server_gone(struct sender *s)
{
    if (s->opt->alive && !s->opt->alive(s->opt->alive_arg))
        s->stats->server_gone = true;
    return s->stats->server_gone;
}

/* After a failure, wait a little for the server's end: a dying process closes its sockets some
 * milliseconds before it can be waited for. */
static bool server_died(struct sender *s)
{
    int i;

    for (i = 0; s->opt->alive && i < 10 && !server_gone(s); i++)
        td_clock_sleep_until(td_clock_mono_ns() + 3 * TD_NS_PER_MS);
    return server_gone(s);
}

static void show_progress(struct sender *s)
{
    char size[48];

    if (s->opt->show_size && s->opt->writer)
        snprintf(size, sizeof size, "%.1f MiB so far",
                 (double)td_writer_bytes(s->opt->writer) / (1 << 20));
    td_progress_at(&s->progress, s->ended, s->opt->show_size && s->opt->writer ? size : NULL);
}

static void count_unheard(struct sender *s, bool refused, bool silent)
{
    if (refused)
        s->group_refused++;
    else if (silent)
        s->group_silent++;
    else
        s->group_ok++;
    s->unheard = refused || silent ? s->unheard + 1 : 0;
    s->unheard_refused = s->unheard ? s->unheard_refused + refused : 0;
}

static void on_request_done(void *arg, const struct td_client_done *done)
{
    struct sender *s = arg;
    const char *kind = done->kind, *error = done->error;

    if (kind && !s->stats->interrupted && server_died(s)) {
        kind = "server";
        error = "the server's process ended during the request";
    }
    note_close(s, done->stream, done->t_ns, kind, error);
    s->stats->failed += kind != NULL;
    s->stats->unseen += kind && !strcmp(kind, TD_ERROR_UNSEEN);
    s->no_files |= done->no_files;
    s->stats->lost_in_row = kind || done->http_status >= 400 ? s->stats->lost_in_row + 1 : 0;
    count_unheard(s, kind && (!strcmp(kind, "connect") || done->no_files), kind && !strcmp(kind, "timeout"));
    if (s->opt->more)
        td_plan_item_release(&s->opt->growing->items[done->stream - s->opt->first_stream]);
    s->ended++;
    show_progress(s);
}

static bool is_stopped(const struct sender *s)
{
    return s->opt->stop && *s->opt->stop;
}

/* Let bytes move until `due`; sleep while nothing is in flight. */
static void run_until(struct sender *s, int64_t due)
{
    int64_t now;

    while ((now = td_clock_mono_ns()) < due && !is_stopped(s)) {
        if (td_client_in_flight(s->client))
            td_client_run(s->client, due, NULL);
        else
            td_clock_sleep_until(due - now > 100 * TD_NS_PER_MS ? now + 100 * TD_NS_PER_MS : due);
    }
}

/* Two servers order a burst by chance, each in its own way. Requests that come one by one they order alike. */
static void keep_apart(struct sender *s, const struct td_plan_item *it)
{
    const int64_t share = TD_SEND_ALL_NS / (it->concurrency > 1 ? it->concurrency : 1);

    if (s->opt->turns && s->one_turn && it->at_ns < 0)
        run_until(s, s->last_begun_ns + (share < TD_SEND_APART_NS ? share : TD_SEND_APART_NS));
}

static int start_request(struct sender *s, struct td_plan_item *it)
{
    uint32_t stream = s->stats->next_stream++;
    char url[1200], id[64], header[96];
    struct td_client_request req = {.stream = stream, .method = it->method, .url = url, .body = it->body,
                                    .body_len = it->body_len};
    int64_t lag;
    int rc;

    if (s->opt->recorded_connections) {
        req.connection = it->connection;
        req.last_of_connection = it->last_of_connection;
    }
    snprintf(url, sizeof url, "%s%s", s->opt->server->url, it->path);
    if (s->opt->request_id) {
        s->opt->request_id(s->opt->request_id_arg, stream, id);
        snprintf(header, sizeof header, "X-Request-Id: %.64s", id);
        req.header = header;
    }
    if (!s->opt->keep_salt)
        td_api_renew_salt(it->body, it->body_len,
                          td_hash64(&s->start_ns, sizeof s->start_ns) ^ stream);
    if (it->at_ns >= 0) {
        lag = td_clock_mono_ns() - (s->start_ns + it->at_ns);
        lag = lag > 0 ? lag : 0;
        s->stats->lag_n++;
        s->stats->lag_sum_ns += lag;
        s->stats->lag_max_ns = lag > s->stats->lag_max_ns ? lag : s->stats->lag_max_ns;
    }
    note_open(s, stream, it);
    s->stats->sent++;
    rc = td_client_start(s->client, &req, s->err);
    s->last_begun_ns = td_clock_mono_ns();
    return rc;
}

/* Is the next item sent without waiting for all before? A loop asks for more at its end. */
static bool goes_on(struct sender *s, size_t i, const struct td_plan_item *first, int *rc)
{
    const struct td_plan_item *it;

    if (i == s->plan->n && first->loop && s->opt->more && !is_stopped(s))
        *rc = s->opt->more(s->opt->more_arg, s->stats, s->err);
    if (*rc || i == s->plan->n)
        return false;
    it = &s->plan->items[i];
    return first->loop || it->loop ? it->loop == first->loop : it->group == first->group;
}

/* Nobody was there for twice as many requests of a loop as are in flight. */
static bool loop_is_lost(const struct sender *s, const struct td_plan_item *first)
{
    return first->loop && (s->stats->server_gone || s->unheard >= 2 * (int64_t)first->concurrency);
}

/* Is the request before it on its connection still in flight? A client waits for its answer. */
static bool waits_for_answer(const struct sender *s, const struct td_plan_item *it)
{
    return it->loop && it->before && td_client_has(s->client, s->opt->first_stream + (uint32_t)it->before - 1);
}

/* Wait for the time of an item, and for room in its loop, or in the client: a request that is held back there is sent late, and
 * says so. */
static int wait_for_room(struct sender *s, const struct td_plan_item *it)
{
    const int64_t most = it->loop ? it->concurrency : it->at_ns >= 0 ? s->room : INT64_MAX;
    int rc = TD_OK;

    if (it->at_ns >= 0)
        run_until(s, s->start_ns + it->at_ns);
    s->held = !it->loop && td_client_in_flight(s->client) >= most;
    while (!rc && (td_client_in_flight(s->client) >= most || waits_for_answer(s, it))) {
        const int flying = td_client_in_flight(s->client);

        rc = td_client_run_down(s->client, flying > most ? (int)most - 1 : flying - 1, td_clock_mono_ns() + SHOW_EVERY_NS, s->err);
        show_progress(s);
    }
    return rc;
}

/* Wait for all answers. A log learns of a long one, too. */
static int wait_for_all(struct sender *s)
{
    int rc = TD_OK;

    while (!rc && td_client_in_flight(s->client)) {
        rc = td_client_run(s->client, td_clock_mono_ns() + SHOW_EVERY_NS, s->err);
        show_progress(s);
    }
    return rc;
}

static void take_turn(struct sender *s)
{
    if (!s->opt->turns || (s->one_turn && s->stats->turns))
        return;
    td_turns_take(s->opt->turns);
    s->stats->turns++;
}

static void give_turn(struct sender *s)
{
    if (s->opt->turns && !s->one_turn)
        td_turns_give(s->opt->turns);
}

/* In a loop of one request at a time: let the other sender send one before this one. */
static int change_turns(struct sender *s)
{
    int rc;

    if (!s->opt->turns || s->one_turn)
        return TD_OK;
    if ((rc = wait_for_all(s)))
        return rc;
    pass_on(s);
    give_turn(s);
    take_turn(s);
    return s->rc;
}

/* Send the items from *at on that do not wait for all before: a group, or a loop. */
static int send_group(struct sender *s, size_t *at)
{
    const struct td_plan_item first = s->plan->items[*at]; /* a copy: the plan may grow */
    /* items with times of their own leave no pause */
    bool pause = s->opt->writer && first.at_ns < 0;
    const size_t begin = *at;
    int rc = TD_OK;

    s->group_refused = s->group_silent = s->group_ok = 0;
    s->loop_stream = s->stats->next_stream;
    if (pause)
        td_writer_pause(s->opt->writer);
    take_turn(s);
    for (; goes_on(s, *at, &first, &rc); ++*at) {
        rc = *at > begin ? change_turns(s) : TD_OK;
        if (!rc)
            rc = wait_for_room(s, &s->plan->items[*at]);
        if (!rc)
            keep_apart(s, &s->plan->items[*at]);
        if (rc || is_stopped(s) || loop_is_lost(s, &first))
            break;
        if ((rc = start_request(s, &s->plan->items[*at])))
            break;
    }
    if (!rc)
        rc = wait_for_all(s);
    if (rc == TD_EINTR || is_stopped(s)) {
        s->stats->interrupted = true;
        td_client_cancel_all(s->client, STOPPED);
        rc = TD_EINTR;
    }
    pass_on(s);
    if (pause)
        td_writer_resume(s->opt->writer);
    give_turn(s); /* with nothing left to do that takes the processors */
    s->refused_groups = s->group_refused && !s->group_ok ? s->refused_groups + 1 : 0;
    s->silent_groups = s->group_silent && !s->group_ok ? s->silent_groups + 1 : 0;
    return rc ? rc : s->rc;
}

/* The server is gone: note each request that is left as not sent, so that none is missing without a
 * reason. */
static void note_unsent(struct sender *s, size_t from)
{
    const bool refused = s->unheard_refused > 0, no_files = s->no_files && refused;
    const char *kind = s->stats->server_gone ? "server"
                       : no_files            ? TD_ERROR_UNSEEN
                       : refused             ? "connect"
                                             : "timeout";
    const char *why = s->stats->server_gone ? "not sent: the server's process is gone"
                      : no_files            ? "not sent: this machine has no open files left (ulimit -n)"
                      : refused             ? "not sent: the server no longer accepts connections"
                                            : "not sent: the server no longer answers";
    size_t i;

    s->stats->no_files = no_files && !s->stats->server_gone;
    for (i = from; i < s->plan->n && !s->rc; i++) {
        uint32_t stream = s->stats->next_stream++;

        note_open(s, stream, &s->plan->items[i]);
        note_close(s, stream, td_clock_mono_ns(), kind, why);
        s->stats->unsent++;
    }
    pass_on(s);
}

static int send_all(struct sender *s)
{
    size_t i = 0;
    int rc = TD_OK;

    while (i < s->plan->n && !rc) {
        if (s->refused_groups >= 2 || s->silent_groups >= 2 || server_gone(s) || loop_is_lost(s, &s->plan->items[i])) {
            note_unsent(s, i);
            return s->rc;
        }
        rc = send_group(s, &i);
    }
    return rc;
}

/* Is one request sent at a time, each when the one before is answered? */
static bool is_one_by_one(const struct td_plan *plan)
{
    size_t i;

    for (i = 0; i < plan->n; i++) {
        const struct td_plan_item *it = &plan->items[i];

        if (it->at_ns >= 0 || (it->loop ? it->concurrency > 1 : i && !it[-1].loop && it->group == it[-1].group))
            return false;
    }
    return true;
}

/* The most requests in flight at once; 0: items with times of their own, where it cannot be known. */
static int64_t largest_group(const struct td_plan *plan)
{
    int64_t most = 0, here = 0;
    size_t i;

    for (i = 0; i < plan->n; i++) {
        const struct td_plan_item *it = &plan->items[i];

        if (it->at_ns >= 0)
            return 0;
        here = i && it->loop == it[-1].loop && (it->loop || it->group == it[-1].group) ? here + 1 : 1;
        here = it->loop && here > it->concurrency ? it->concurrency : here;
        most = here > most ? here : most;
    }
    return most;
}

int td_send_check_files(const struct td_plan *plan, struct td_error *err)
{
    return td_open_files_ensure(largest_group(plan), err);
}

static int open_sender(struct sender *s)
{
    const struct td_send_options *o = s->opt;
    struct td_client_options c = {.connect_timeout_ms = o->connect_timeout_ms,
                                  .total_timeout_ms = o->total_timeout_ms,
                                  .idle_timeout_ms = o->idle_timeout_ms,
                                  .max_answer_bytes = o->max_answer_bytes,
                                  .own_connections = o->own_connections,
                                  .headers = o->headers,
                                  .sink = put_record,
                                  .sink_arg = s,
                                  .done = on_request_done,
                                  .done_arg = s,
                                  .stop = o->stop};
    int rc;

    if (o->emit && !(s->deriver = td_deriver_new(o->emit, o->emit_arg)))
        return td_fail(s->err, TD_ENOMEM, "out of memory for the deriver");
    rc = td_event_blocks_new(o->writer ? to_writer : NULL, s->deriver ? to_deriver : NULL, s, &s->blocks, s->err);
    return rc ? rc : td_client_new(&c, &s->client, s->err);
}

int td_send_plan(const struct td_plan *plan, const struct td_send_options *opt, struct td_send_stats *stats,
                 struct td_error *err)
{
    struct sender s = {.plan = plan, .opt = opt, .stats = stats, .err = err};
    int rc, end;

    *stats = (struct td_send_stats){.next_stream = opt->first_stream};
    rc = td_allowed_plan(opt->server->kind, plan, opt->allow_paths, err);
    if (!rc)
        rc = td_send_check_files(plan, err);
    if (rc)
        return rc;
    rc = open_sender(&s);
    if (opt->progress)
        td_progress_start(&s.progress, opt->progress, (int64_t)plan->n);
    s.one_turn = !is_one_by_one(plan);
    s.room = largest_group(plan) ? INT64_MAX : td_open_files_room(TD_CLIENT_MAX_IN_FLIGHT);
    if (s.one_turn)
        take_turn(&s);
    s.start_ns = stats->t_start_ns = td_clock_mono_ns();
    if (!rc)
        rc = send_all(&s);
    stats->t_end_ns = td_clock_mono_ns();
    if (opt->progress)
        td_progress_done(&s.progress);
    td_client_free(s.client);
    if (s.blocks)
        pass_on(&s);
    td_event_blocks_free(s.blocks);
    if (s.deriver && (end = td_deriver_end(s.deriver, err)) && !rc)
        rc = end;
    td_deriver_free(s.deriver);
    return rc ? rc : s.rc;
}

bool td_send_was_stopped(const struct td_exchange *x)
{
    return x->error && x->error_kind && !strcmp(x->error_kind, "cut") && strstr(x->error, STOPPED);
}
