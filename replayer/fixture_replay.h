/* fixture_replay.h - replay one fixture into another: requests on a server, ops on a build.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_FIXTURE_REPLAY_H
#define TD_REPLAYER_FIXTURE_REPLAY_H

#include "replayer/op_replay.h"
#include "replayer/request_replay.h"

struct td_fixture_replay_result {
    char path[4096];            /* the fixture that was written; "" when none was */
    bool did_requests, did_ops;
    struct td_request_replay_stats requests;
    struct td_op_replay_stats ops;
    char server[1024];          /* "http://… (vllm 0.1, model x)" */
};
void td_fixture_replay_result_release(struct td_fixture_replay_result *r);

/* Replay the fixture in `dir` into a new fixture `output` (NULL: fixtures/replay-MODEL-TIME). First
 * decide what to replay and check that server and builds can be used; nothing is written if they
 * cannot. TD_EEXIST: output exists already. On TD_EINTR the fixture is written as "interrupted". */
int td_fixture_replay(const char *dir, const char *output, const struct td_replay_options *opt,
                      struct td_fixture_replay_result *res, struct td_error *err);

#endif
