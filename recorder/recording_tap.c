/* recording_tap.c - find the tap, and record ops while the suite is sent once more.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/recording_tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/processes.h"
#include "recorder/dropped_ops.h"
#include "recorder/flight_watch.h"
#include "recorder/send_requests.h"
#include "recorder/tap_options.h"
#include "recorder/tap_client/tap_client.h"

#define HOW_TO_TAP                                                                                 \
    "start the server with `record … --run -- COMMAND`, or in a shell after "                     \
    "eval \"$(record --tap-env)\""

/* ---- finding it ------------------------------------------------------------------------------ */

/* Fill r->client, or r->no_tap, which --run may have filled before. */
static void connect_tap(struct td_recording *r)
{
    const struct td_record_options *o = r->opt;
    struct td_tap_client_target target = {.socket = o->tap_socket,
                                          .pid = r->started.proc.pid,
                                          .port = td_local_port(r->url),
                                          .wait_ms = r->started.proc.pid > 0 ? 5000 : 500};
    struct td_tap_client_options options = td_tap_options_of(o, r->server.kind);
    struct td_error why = {0};

    options.writer = r->writer;
    options.nonce = r->nonce;
    options.checkpoint = o->checkpoint ? o->checkpoint : r->server.root;
    options.stop = r->stop;
    if (o->mode.steps == TD_TAP_CLIENT_OFF)
        snprintf(r->no_tap, sizeof r->no_tap, "--gemms off");
    else if (*r->no_tap)
        return;
    else if (!target.socket && !target.pid && !target.port)
        snprintf(r->no_tap, sizeof r->no_tap,
                 "the server runs on another machine; run record there to get its GEMMs");
    else if (td_tap_client_open(&target, &options, &r->client, &why))
        snprintf(r->no_tap, sizeof r->no_tap, "%.300s", why.msg);
}

int td_recording_find_tap(struct td_recording *r, struct td_error *err)
{
    const struct td_record_options *o = r->opt;
    bool all = o->mode.all_kinds;

    connect_tap(r);
    td_tap_client_facts(r->client, r->writer, r->client ? NULL : r->no_tap);
    if (r->client || o->mode.steps == TD_TAP_CLIENT_OFF)
        return TD_OK;
    if (o->gemms_required)
        return td_fail(err, TD_ENOTFOUND, "%s%s needs a tap: %s", all ? "--all-ops" : "--gemms ",
                       all ? "" : o->gemms, r->no_tap);
    td_log(TD_LOG_WARN, "record", "no tap, so no GEMMs: %s", r->no_tap);
    if (!strstr(r->no_tap, "--run"))
        td_log(TD_LOG_WARN, "record", "to get them, %s", HOW_TO_TAP);
    return TD_OK;
}

/* ---- the tapped phase ------------------------------------------------------------------------ */

static void say_no_gemm(const struct td_tap_client_state *ops)
{
    char why[180];

    td_dropped_ops_reason(ops, why, sizeof why);
    if (*why)
        td_log(TD_LOG_WARN, "record", "the tap is in the server, but recorded no GEMM: %s", why);
    else if (ops->operators)
        td_log(TD_LOG_WARN, "record",
               "the tap is in the server, but recorded no GEMM: operators of torch, most of all "
               "%s, are counted by name only; --ops FILE can describe them (docs/own-operators.md)",
               ops->most_called);
    else
        td_log(TD_LOG_WARN, "record",
               "the tap is in the server, but recorded no GEMM: does the server compute with a "
               "kernel that the tap knows?");
}

/* Send the suite once with the tap armed, and keep nothing but what each op gave (seen_outputs.h). */
static int rehearse(struct td_recording *r, struct td_error *err)
{
    struct td_tap_client_mode mode = r->opt->mode;
    const int64_t prompts = (int64_t)r->suite.n;
    int rc;

    mode.flight_mib = 0;
    td_tap_client_rehearse(r->client, true);
    rc = td_tap_client_arm(r->client, &mode, err);
    if (!rc) /* repeats of warm-up requests count from 0 */
        rc = td_recording_send_phase(r, TD_PHASE_WARMUP, 1 + (r->opt->warmup + prompts - 1) / prompts, 1, "rehearsing GEMMs", err);
    if (td_tap_client_disarm(r->client, rc ? NULL : err) && !rc)
        rc = err->code;
    td_tap_client_rehearse(r->client, false);
    return rc;
}

int td_recording_tapped_phase(struct td_recording *r, struct td_error *err)
{
    int rc = TD_OK;

    if (!r->client || r->interrupted || r->server_gone)
        return TD_OK;
    if (r->opt->digests)
        rc = rehearse(r, err);
    if (rc || r->interrupted || r->server_gone)
        return rc;
    rc = td_tap_client_arm(r->client, &r->opt->mode, err);
    if (rc)
        return rc;
    td_tap_client_facts(r->client, r->writer, NULL);
    rc = td_recording_send_phase(r, TD_PHASE_TAPPED, 0, r->opt->tapped_repeat, "recording GEMMs",
                                 err);
    if (td_tap_client_disarm(r->client, rc ? NULL : err) && !rc)
        rc = err->code;
    td_tap_client_state(r->client, &r->ops);
    r->have_ops = true;
    td_flight_watch_report(r->client, r->interrupted);
    if (!rc && !r->ops.ops_kept && !r->interrupted)
        say_no_gemm(&r->ops);
    return rc;
}
