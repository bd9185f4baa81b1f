/* op_plan.h - which ops are judged when there is no time for all: the plan of a replay.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A plan is made once, from what a few ops of each kernel, shape and class of M took, and is written into
 * the replay's manifest (docs/format.md, "replay.op_plan"). From there another replay takes it, on
 * another machine (--plan), so that both judge the same ops. */
#ifndef TD_REPLAYER_OP_PLAN_H
#define TD_REPLAYER_OP_PLAN_H

#include <cjson/cJSON.h>

#include "replayer/op_list.h"

/* What is known of a group when a plan is made. */
struct td_op_plan_cost {
    int64_t have, done;  /* ops that may be planned; of these were judged to find cost_s */
    int64_t layers;      /* in which they lie */
    double cost_s;       /* of one op */
};

/* Share the seconds that are left among the groups: keep[g] ops of each, with those that are done.
 * Every group has one op at least, and one in each layer where there is time for that in all groups; what
 * is left is shared so that each group has as much time as another, unless it needs less. */
void td_op_plan_fit(const struct td_op_plan_cost *cost, size_t n, double left_s, int64_t *keep);

/* How much of what could be planned is planned. */
struct td_op_share {
    int64_t planned, of;
    bool each_shape, each_layer; /* is an op of each kernel, shape and class of M there; in each layer? */
};
/* Count those that are chosen of those that match. TD_ENOMEM. */
int td_op_plan_share(const struct td_op_list *list, struct td_op_share *out, struct td_error *err);
#define TD_OP_SHARE_WORDS 160
/* "judging 412 of 3986 ops, each kernel, shape, M class and layer at least once". Returns out. */
const char *td_op_share_words(const struct td_op_share *share, char out[TD_OP_SHARE_WORDS]);

/* The plan as it is written. Left out is the list of ops where all that the fixture holds are planned.
 *   by : what made it: "all", "max-ops", "time", "plan"
 * The caller frees it. NULL: out of memory. */
cJSON *td_op_plan_json(const struct td_op_list *list, const struct td_op_share *share, const char *by, double time_s,
                       const char *fixture_id);

/* Find the plan of a fixture in a file: the manifest of a replay (or its folder, or its pack), or the report
 * that gate wrote as JSON. *out is the caller's. TD_EINVAL: there is none, none of this fixture, or no regular file. */
int td_op_plan_load(const char *path, const char *fixture_id, cJSON **out, struct td_error *err);
/* Choose the planned ops of the list, whose order is there, and give these their turns. *left_out: how many of
 * those that were chosen are not any more. TD_EINVAL: it names an op that the list does not hold. */
int td_op_plan_choose(const cJSON *plan, struct td_op_list *list, int64_t *left_out, struct td_error *err);
/* Can the plan in this file be taken for the fixture? Both errors above, before anything is written. */
int td_op_plan_check(const char *path, struct td_fixture *fx, struct td_error *err);

#endif
