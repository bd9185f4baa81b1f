/* build_pair.h - the candidate's and the baseline's process.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_BUILD_PAIR_H
#define TD_REPLAYER_BUILD_PAIR_H

#include "replayer/build_detect.h"
#include "replayer/build_process.h"
#include "replayer/replay_options.h"

struct td_build_pair {
    struct td_build_process candidate, baseline; /* baseline: only with --baseline-build */
    struct td_build found[2];    /* candidate, baseline: what they are; the processes borrow from here */
    char words[2][256];          /* candidate, baseline: how reports name them */
};

/* Find out what the builds are. Nothing of them is executed.
 *   found : [2], candidate and baseline; the latter only with --baseline-build */
int td_build_pair_detect(const struct td_replay_options *o, struct td_build found[2], struct td_error *err);

/* Find out what the builds are and start a process for each, which loads it from now on. Errors are those of
 * td_build_detect() and td_build_process_begin(), and TD_ENOMEM. */
int td_build_pair_begin(const struct td_replay_options *o, struct td_build_pair **out, struct td_error *err);
/* Wait until both are loaded. Errors are those of td_build_process_await(). */
int td_build_pair_await(const struct td_replay_options *o, struct td_build_pair *b, struct td_error *err);
/* Have the processes end, and do not wait for that: no op is run any more. */
void td_build_pair_leave(struct td_build_pair *b);
/* End the processes. NULL is allowed. */
void td_build_pair_free(struct td_build_pair *b);

#endif
