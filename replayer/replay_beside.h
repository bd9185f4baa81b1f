/* replay_beside.h - replay on two servers at once, which are asked in turn.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A machine that is slower for a second is slower for both, where one server answers right after the other. So `gate` times two
 * servers answer by answer (wire/send.h, turns): the process is doubled, and each half replays on its server as it would alone. */
#ifndef TD_REPLAYER_REPLAY_BESIDE_H
#define TD_REPLAYER_REPLAY_BESIDE_H

#include "replayer/replay_options.h"

/* Replay the fixture in `dir` as opt says; returns the exit code. */
typedef int td_replay_one_fn(const char *dir, const char *output, const struct td_replay_options *opt);

/* Replay on opt->server into opt->output and, in another process, on opt->beside into opt->beside_output. Both are waited for. Returns
 * the exit code that counts; in the other process its own, which is the exit code of main() there, too. */
int td_replay_beside(const char *dir, const struct td_replay_options *opt, td_replay_one_fn *replay_one);

#endif
