/* build_pair.h - the processes that run the builds of a replay.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_BUILD_PAIR_H
#define TD_REPLAYER_BUILD_PAIR_H

#include "replayer/build_detect.h"
#include "replayer/build_process.h"
#include "replayer/replay_options.h"

struct td_build_pair {
    struct td_build_process candidate, baseline; /* baseline: only with --baseline-build */
    struct td_build found[2];             /* what they are; the runners borrow from here */
    char words[2][256];                   /* what reports call them: their own words, and what was set for them */
};

/* Find out what the builds are and start them. What a build says when it cannot be opened goes up. Close it either way. */
int td_build_pair_open(const struct td_replay_options *o, struct td_build_pair *b,
                       struct td_error *err);
void td_build_pair_close(struct td_build_pair *b);

#endif
