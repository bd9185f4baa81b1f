/* build_pair.h - the processes that run the builds of a replay.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_BUILDS_H
#define TD_REPLAYER_BUILDS_H

#include "replayer/build_detect.h"
#include "replayer/replay_options.h"
#include "replayer/build_process.h"

struct td_builds {
    struct td_runner candidate, baseline; /* baseline: only with --baseline-build */
    struct td_build found[2];             /* what they are; the runners borrow from here */
    char words[2][256];                   /* what reports call them: their own words, and what was set for them */
};

/* Find out what the builds are and start them. What a build says when it cannot be opened goes up. Close it either way. */
int td_builds_open(const struct td_replay_options *o, struct td_builds *b, struct td_error *err);
void td_builds_close(struct td_builds *b);

#endif
