/* gate_plan.h - what a run of gate will do: the fixtures, and the folders of their replays.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_GATE_PLAN_H
#define TD_GATE_PLAN_H

#include "common/fs.h"
#include "gate/gate_options.h"

struct td_gate_item {
    char fixture[TD_PATH_MAX]; /* as the user named it, or below a folder that he named */
    char name[256];            /* unique in the run: the end of its path that tells it apart */
    char folder[TD_PATH_MAX];  /* exists; its replays go there */
};

struct td_gate_plan {
    const struct td_gate_options *opt;
    struct td_gate_item *item; size_t n; /* of --smoke: one item without a fixture */
    char folder[TD_PATH_MAX];            /* holds the folders of all items */
    bool temporary; int lock;            /* the folder is removed at the end (temporary.h) */
};

/* Check all options that can be checked, find the fixtures, and make the folders.
 * TD_EINVAL, TD_EEXIST: a usage error; other codes: nothing can be judged. */
int td_gate_plan_make(const struct td_gate_options *o, struct td_gate_plan *p,
                      struct td_error *err);
/* Free the plan, and remove a temporary folder, or that of --keep if nothing is in it. */
void td_gate_plan_end(struct td_gate_plan *p);

#endif
