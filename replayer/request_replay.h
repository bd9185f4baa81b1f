/* request_replay.h - replay a fixture's requests on a running server.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_REQUEST_REPLAY_H
#define TD_REPLAYER_REQUEST_REPLAY_H

#include "replayer/replay_options.h"
#include "wire/extras.h"
#include "wire/fill_ids.h"
#include "wire/scores.h"
#include "wire/send.h"

struct td_request_replay_stats {
    int64_t recorded, planned, answered, failed, not_sent;
    int64_t scored, not_scored; /* recorded answers, a pass each */
    int64_t skipped;            /* could not be asked again: no JSON body, or redacted and without token ids */
    bool by_token_ids;          /* the recording holds no text: prompts went as token ids */
    bool server_gone;
    uint32_t next_stream;
    double lag_max_ms, lag_mean_ms, seconds;
};

/* Who serves at `url`, and is it ready? What is not goes up as a sentence with the next step. */
int td_request_replay_probe(const struct td_replay_options *opt, const char *url,
                            struct td_api_server *server, struct td_error *err);

/* Does the longest recorded exchange (prompt and answer, in tokens) fit the context that `server` gives a request? vLLM refuses a
 * request whose max_tokens do not fit, so there they count. TD_EINVAL: no, both lengths are named. What is not known fits. */
int td_request_plan_check_context(const struct td_exchange *xs, size_t n,
                                  const struct td_api_server *server, struct td_error *err);

/* Make the list of requests from recorded exchanges: phase timed only (tapped, if there is nothing else); `repeat` passes
 * (0: as recorded; more than recorded: they start over). Exchanges whose prompt was redacted are asked by token ids.
 * manifest : of the recording, tells what was redacted. Tests call this. */
int td_request_plan_make(const struct td_exchange *xs, size_t n, const cJSON *manifest,
                         int64_t repeat, double speed, struct td_plan *plan,
                         struct td_request_replay_stats *stats, struct td_error *err);

/* Warm up, send, write exchanges. A server that dies or hangs, even at the warm-up, is a result: what it did not answer is
 * written with an error_kind. TD_EINTR: stopped by the user. */
int td_request_replay(struct td_fixture *fx, struct td_writer *w,
                      const struct td_replay_options *opt, const struct td_api_server *server,
                      struct td_request_replay_stats *stats, struct td_error *err);

#endif
