/* passive_tap.c - the tap beside a passive recording: the ops of the traffic that is captured.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/passive_tap.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "common/processes.h"
#include "recorder/tap_client/tap_client.h"
#include "recorder/tap_options.h"

#define FIND_MS 500
#define CLOCK_MOVED_NS (2 * TD_NS_PER_MS)
#define MOST_REQUESTS ((size_t)1 << 20) /* whose times and lengths are kept */

/* How far the packets' clock is ahead of the taps'. The quickest of a few looks is the best one. */
static int64_t look_at_clocks(void)
{
    int64_t best = INT64_MAX, shift = 0;

    for (int i = 0; i < 8; i++) {
        const int64_t before = td_clock_mono_ns(), wall = td_clock_wall_ns(), took = td_clock_mono_ns() - before;

        if (took < best) {
            best = took;
            shift = wall - (before + took / 2);
        }
    }
    return shift;
}

static void connect_tap(struct td_passive_tap *t, const struct td_record_options *o, const char *server, struct td_writer *w,
                        const volatile sig_atomic_t *stop)
{
    struct td_tap_client_options options = td_tap_options_of(o, o->api);
    struct td_tap_client_target target = {.socket = o->tap_socket, .wait_ms = FIND_MS};
    struct td_error why = {0};
    char url[512];

    t->shift_ns = look_at_clocks();
    options.writer = w;
    options.server_ids = true;
    options.clock_shift_ns = t->shift_ns;
    options.stop = stop;
    if (!td_api_url(server, url, sizeof url, NULL))
        target.port = td_local_port(url);
    if (!target.socket && !target.port)
        snprintf(t->no_tap, sizeof t->no_tap, "the server runs on another machine; run record there to get its GEMMs");
    else if (td_tap_client_open(&target, &options, &t->client, &why))
        snprintf(t->no_tap, sizeof t->no_tap, "%.300s", why.msg);
}

int td_passive_tap_arm(struct td_passive_tap *t, const struct td_record_options *o, const char *server, struct td_writer *w,
                       const volatile sig_atomic_t *stop, struct td_error *err)
{
    int rc = TD_OK;

    connect_tap(t, o, server, w, stop);
    if (t->client)
        rc = td_tap_client_arm(t->client, &o->mode, err);
    td_tap_client_facts(t->client, w, t->client ? NULL : t->no_tap);
    if (t->client || rc)
        return rc;
    if (o->gemms_required)
        return td_fail(err, TD_ENOTFOUND, "%s%s needs a tap: %s", o->mode.all_kinds ? "--all-ops" : "--gemms ",
                       o->mode.all_kinds ? "" : o->gemms, t->no_tap);
    td_log(TD_LOG_WARN, "record", "no tap, so the traffic alone is recorded: %s", t->no_tap);
    return TD_OK;
}

static void add_request(struct td_passive_tap *t, const struct td_exchange *x)
{
    if (t->requests.n >= MOST_REQUESTS || !td_rows_add(&t->requests, x))
        t->no_memory = true;
}

void td_passive_tap_add(struct td_passive_tap *t, const struct td_exchange *x)
{
    const char *id = td_json_get_str(x->extra, "response_id", NULL);

    if (!t->client)
        return;
    if (id && !td_tap_client_add_answer(t->client, id, x->stream, x->t_sent_ns, x->t_end_ns))
        t->unnamed++;
    add_request(t, x);
}

/* As a request of unknown length that never ends: no group of requests with it comes out. */
void td_passive_tap_stranger(struct td_passive_tap *t, int64_t t_ns)
{
    const struct td_exchange stranger = {.stream = 0, .t_sent_ns = t_ns, .t_end_ns = INT64_MAX, .n_prompt_ids = -1};

    if (!t->client || t->has_stranger)
        return;
    t->has_stranger = true;
    add_request(t, &stranger);
}

void td_passive_tap_disarm(struct td_passive_tap *t)
{
    struct td_error why = {0};

    if (t->client && td_tap_client_disarm(t->client, &why))
        td_log(TD_LOG_WARN, "record", "%s", why.msg);
}

/* The rows that the server did not name: by times, if these can be compared. */
static void name_rows(struct td_passive_tap *t)
{
    const int64_t moved = look_at_clocks() - t->shift_ns;
    const bool set = moved > CLOCK_MOVED_NS || moved < -CLOCK_MOVED_NS;

    if (t->unnamed)
        td_log(TD_LOG_WARN, "record", "the ids of %lld answers are too long, or too many, to be kept: their rows are nobody's",
               (long long)t->unnamed);
    td_tap_client_state(t->client, &t->ops);
    if (t->ops.rows_forgotten)
        td_log(TD_LOG_WARN, "record", "the server's ids of %lld rows are too long, or too many, to be kept: these rows are nobody's",
               (long long)t->ops.rows_forgotten);
    if (set)
        td_log(TD_LOG_WARN, "record", "the wall clock was set by %.3f s while it was recorded: steps whose rows the server does "
                                      "not name stay unknown",
               (double)moved / 1e9);
    td_tap_client_name_rows(t->client, t->requests.x, set || t->no_memory ? 0 : t->requests.n);
}

void td_passive_tap_end(struct td_passive_tap *t)
{
    struct td_error late = {0};

    if (!t->client)
        return;
    name_rows(t);
    if (td_tap_client_end(t->client, &late))
        snprintf(t->failure, sizeof t->failure, "%.199s", late.msg);
    td_tap_client_state(t->client, &t->ops);
    td_tap_client_close(t->client, NULL);
    t->client = NULL;
}

void td_passive_tap_release(struct td_passive_tap *t)
{
    td_tap_client_close(t->client, NULL);
    t->client = NULL;
    free(t->requests.x);
    t->requests = (struct td_rows_requests){0};
}
