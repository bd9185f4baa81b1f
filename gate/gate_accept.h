/* gate_accept.h - accepted findings in a run of gate: read the file, apply it, add to it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_GATE_GATE_ACCEPT_H
#define TD_GATE_GATE_ACCEPT_H

#include "common/fs.h"
#include "gate/gate_options.h"

struct td_gate_accept {
    cJSON *file;                 /* what was accepted before */
    char path[TD_PATH_MAX];
    int64_t today, until;        /* days; until: of --accept */
};

/* Read the file, and check --until. TD_EINVAL. */
int td_gate_accept_open(const struct td_gate_options *o, struct td_gate_accept *a,
                        struct td_error *err);
/* Apply what is accepted; with --accept, add what is not to the file, and apply that. Says on
 * stderr what has expired, what soon will, and what was added.
 *   report : changed, or replaced */
void td_gate_accept_apply(const struct td_gate_options *o, struct td_gate_accept *a,
                          cJSON **report);
void td_gate_accept_close(struct td_gate_accept *a);

#endif
