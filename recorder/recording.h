/* recording.h - the state of one recording, which record.c and its parts share.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Calls go one way: record (the order of things) -> recording_tap, send_requests, recording_facts
 * -> the tap client, wire, format. */
#ifndef TD_RECORDER_RECORDING_H
#define TD_RECORDER_RECORDING_H

#include "common/cpu_others.h"
#include "common/fs.h"
#include "format/fixture.h"
#include "recorder/record_load.h"
#include "recorder/record_options.h"
#include "recorder/recording_summary.h"
#include "recorder/run_server.h"
#include "recorder/tap_client/request_ids.h"
#include "recorder/tap_client/step_rows.h"
#include "wire/extras.h"
#include "wire/fill_ids.h"
#include "wire/scores.h"
#include "wire/suite.h"

struct td_tap_client;

#define TD_WARMUP_TOKENS 8
#define TD_STARTS_MAX 100

struct td_recording {
    const struct td_record_options *opt;
    const volatile sig_atomic_t *stop;
    struct td_sampling sampling;
    struct td_suite suite;
    struct td_run_server started; /* by --run */
    struct td_api_server server;
    char url[512], nonce[TD_TAP_CLIENT_NONCE];
    struct td_writer *writer;
    char dir[TD_PATH_MAX];        /* the fixture's */
    bool interrupted, server_gone;
    double probe_ms[TD_STARTS_MAX]; int n_probes; /* how fast the machine was, of each start */
    struct td_cpu_others others[TD_STARTS_MAX];   /* [n_probes] what other programs took of it */
    struct td_record_load load;
    int64_t planned_timed, planned_tapped, planned_scores; /* requests (recording_state.h) */

    /* Requests and what came back. An exchange passes fill_ids, then the writer, scores,
     * summary. */
    uint32_t next_stream;
    struct td_fill_ids *fill_ids; /* holds answers whose token ids the stream lost, and asks for
                                     them again */
    int64_t ids_filled;           /* answers whose token ids came from a second request */
    struct td_scores scores;
    struct td_extras extras;      /* what this server can do, for the facts */
    struct td_metrics metrics[2]; /* the server's own, before and after the timed phase */
    struct td_recording_summary summary;
    struct td_exchange sample;    /* the first answer without an error: its extras are facts */
    bool have_sample;
    bool ask_again;               /* the warm-up request was refused for a field that is left out
                                     now */
    char warmup_error[200];       /* why the first warm-up request failed that nothing was said of, or "" */
    char engine[600];             /* why nothing is answered though /health was 200, or "" */

    /* The tap. */
    struct td_tap_client *client; /* NULL: there is none */
    char no_tap[512];             /* why */
    struct td_rows_requests tapped; /* requests of the tapped phase: rows of steps are named by
                                       them */
    struct td_tap_client_state ops;
    bool have_ops;                /* ops is filled */
    char tap_failure[200];        /* why not all that the tap sent was written; "": it was */
    bool collapse_dumped;         /* the flight recorder was asked for what led to the first
                                     collapsed answer */
};

#endif
