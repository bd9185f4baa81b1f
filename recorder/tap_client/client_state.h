/* client_state.h - the state of the tap client, which its files share.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Calls go one way: tap_client (open, arm, disarm, close) -> client_pump (the threads) ->
 * read_rings -> read_ops, read_steps, read_weights, kernel_counts,
 * operator_counts (name_index), flight_facts -> store_weights, client_ledger, seen_outputs, wanted_layers, received_op. */
#ifndef TD_RECORDER_TAP_CLIENT_CLIENT_STATE_H
#define TD_RECORDER_TAP_CLIENT_CLIENT_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "model/identify/layer_index.h"
#include "recorder/tap_client/flight_facts.h"
#include "recorder/tap_client/gpu_shares.h"
#include "recorder/tap_client/kernel_counts.h"
#include "recorder/tap_client/layer_filter.h"
#include "recorder/tap_client/operator_counts.h"
#include "recorder/tap_client/request_ids.h"
#include "recorder/tap_client/seen_outputs.h"
#include "recorder/tap_client/server_ids.h"
#include "recorder/tap_client/step_rows.h"
#include "recorder/tap_client/tap_client_options.h"
#include "recorder/tap_client/tap_connection.h"

struct td_tap_client {
    struct td_tap_client_options opt;
    struct td_tap_client_mode mode;
    char nonce[TD_TAP_CLIENT_NONCE];
    struct td_layer_index *layers;    /* the checkpoint; NULL: none is known */
    char *why_no_layers;
    struct client_tap tap[CLIENT_MAX_TAPS]; int n; /* one for each process */

    pthread_mutex_t talk;             /* held for a message to a tap and its answer. Locked before
                                         `lock` where both are needed */
    pthread_mutex_t lock;             /* all below, and the rings and counts of the taps */
    pthread_t pump, heart;
    bool pumping, beating;            /* these threads run */
    atomic_bool stop;                 /* they are to end */
    atomic_int waiting;               /* threads that wait for `lock`: a busy pump lets them in */
    int64_t next_op;
    struct client_kernels kernels;
    struct client_operators operators;
    struct client_shares shares;
    struct td_layer_filter *filter;   /* NULL: all layers are wanted */
    bool nameless;                    /* the filter dropped ops because they have no name */
    struct client_flight flight;
    struct client_outputs outputs;    /* those that need not be stored */
    struct td_rows_step *held; size_t n_held, cap_held; /* read_steps.h: steps whose rows are not
                                                           named yet */
    struct client_server_ids ids;     /* with opt.server_ids */
    char *unseen;                     /* what a tap said when it was armed: why launches are not
                                         seen; NULL: nothing */
    int64_t rest_ns, rest_most_ns;    /* spent on what taps left behind; at most: client_drain_all() */
    bool rest_stopped;                /* a signal made that less */
    bool ended;                       /* td_tap_client_end() was called */
    struct td_tap_client_state state;
    struct td_error failed;           /* the first failure of the writer */
};

#endif
