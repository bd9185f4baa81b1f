/* replay_times.c - what the stages of a replay spend their time on.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/replay_times.h"

#include "common/log.h"
#include "kernels/reference/reference_times.h"

struct td_time_span td_replay_times[TD_REPLAY_TIMES] = {
    [TD_TIME_READ_RECORDS] = {"records", 0},
    [TD_TIME_READ_BLOBS] = {"tensors", 0},
    [TD_TIME_RUN_PACK] = {"packing", 0},
    [TD_TIME_RUN_WAIT] = {"waiting for the build's process", 0},
    [TD_TIME_RUN_IMAGES] = {"taking outputs", 0},
    [TD_TIME_BUILD_LOAD] = {"loading", 0},
    [TD_TIME_BUILD_PREPARE] = {"preparing", 0},
    [TD_TIME_BUILD_RUN] = {"running", 0},
    [TD_TIME_BUILD_FETCH] = {"fetching", 0},
    [TD_TIME_BUILD_RELEASE] = {"releasing", 0},
    [TD_TIME_JUDGE_REFERENCES] = {"references in all", 0},
    [TD_TIME_JUDGE_OUTPUTS] = {"outputs", 0},
    [TD_TIME_JUDGE_VARIETY] = {"variety", 0},
};

static void log_spans(const char *what, const struct td_time_span *first, int n)
{
    char words[400];

    td_log(TD_LOG_INFO, "replay", "%s: %s", what, td_time_spent_words(first, n, words, sizeof words));
}

void td_replay_times_log(void)
{
    const struct td_time_span *t = td_replay_times, *refs = td_reference_times;

    log_spans("reading", t, TD_TIME_RUN_PACK);
    log_spans("running builds", t + TD_TIME_RUN_PACK, TD_TIME_BUILD_LOAD - TD_TIME_RUN_PACK);
    log_spans("in the builds' processes", t + TD_TIME_BUILD_LOAD, TD_TIME_JUDGE_REFERENCES - TD_TIME_BUILD_LOAD);
    log_spans("the reference's GPU", refs, TD_TIME_REF_SLOT);
    log_spans("references by it, all threads that judge", refs + TD_TIME_REF_SLOT, TD_REFERENCE_TIMES - TD_TIME_REF_SLOT);
    log_spans("judging, all threads", t + TD_TIME_JUDGE_REFERENCES, TD_REPLAY_TIMES - TD_TIME_JUDGE_REFERENCES);
}

/* ---- points ---------------------------------------------------------------------------------- */

static int64_t began_ns;
static struct td_time_span points[TD_REPLAY_POINTS] = {
    [TD_AT_BUILDS_OPEN] = {"builds open", 0},
    [TD_AT_LISTED] = {"ops listed", 0},
    [TD_AT_FIRST_OP] = {"first op ran", 0},
    [TD_AT_LAST_OP] = {"last op ran", 0},
    [TD_AT_JUDGED] = {"all judged", 0},
    [TD_AT_WRITTEN] = {"written", 0},
    [TD_AT_END] = {"all ended", 0},
};

void td_replay_points_begin(void)
{
    began_ns = td_clock_mono_ns();
    for (int i = 0; i < TD_REPLAY_POINTS; i++)
        points[i].ns = 0;
}

void td_replay_is_at(enum td_replay_point point)
{
    if (!points[point].ns || point == TD_AT_LAST_OP)
        points[point].ns = td_clock_mono_ns() - began_ns;
}

void td_replay_points_log(void)
{
    if (points[TD_AT_FIRST_OP].ns)
        log_spans("since the begin", points, TD_REPLAY_POINTS);
}
