/* request_replay.h - replay a fixture's requests on a running server.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_REQUEST_REPLAY_H
#define TD_REPLAYER_REQUEST_REPLAY_H

#include "replayer/replay_options.h"
#include "replayer/request_plan.h"
#include "wire/client_lag.h"
#include "wire/extras.h"
#include "wire/fill_ids.h"
#include "wire/scores.h"
#include "wire/send.h"

#define TD_REPLAY_SERVER_GONE "the server died or hung in the middle of the replay"
#define TD_REPLAY_NO_FILES "this machine had no open files left in the middle of the replay (ulimit -n)"

struct td_request_replay_stats {
    struct td_request_plan_counts plan;
    int64_t answered, failed, not_sent;
    int64_t scored, not_scored; /* recorded answers, counted once per scoring of each */
    bool server_gone;           /* it died or hung during the replay, or requests are not sent for want of files */
    bool no_files;              /* it is this machine that has no open files left (ulimit -n), not the server */
    uint32_t next_stream;
    int64_t turns;              /* taken with the other server; 0: there is none */
    double lag_max_ms, lag_mean_ms, seconds;
    struct td_client_lag lag;   /* of requests that were meant to be sent at a time; the caller releases it */
};

/* Probe the server at `url` until its model is loaded. Errors as of td_api_probe(). */
int td_request_replay_probe(const struct td_replay_options *opt, const char *url,
                            struct td_api_server *server, struct td_error *err);

/* Warm up the server, send the recorded requests, write the exchanges. A server that dies or hangs,
 * even at the warm-up, is a result: its unanswered exchanges are written with an error_kind.
 * TD_EINTR: stopped by the user. */
int td_request_replay(struct td_fixture *fx, struct td_writer *w,
                      const struct td_replay_options *opt, const struct td_api_server *server,
                      struct td_request_replay_stats *stats, struct td_error *err);

#endif
