/* op_item.c - the state of one op on its way through a replay.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/op_item.h"

#include <stdio.h>

void td_op_item_fail(struct td_op_item *it, enum td_op_status s, const char *reason)
{
    if (it->status != TD_OP_OK)
        return;
    it->status = s;
    snprintf(it->reason, sizeof it->reason, "%.479s", reason);
}

bool td_op_item_has_finding(const struct td_op_item *it)
{
    const enum td_run_status s = it->candidate.status;

    return (s == TD_RUN_CRASHED || s == TD_RUN_HUNG || s == TD_RUN_FAILED) && !it->candidate.no_memory;
}

bool td_op_item_may_try_again(const struct td_op_item *it)
{
    return it->no_memory && !it->is_alone;
}

const char *td_op_item_rounding(const struct td_op_item *it, const struct td_run_result *run)
{
    return run && run->rounding[0] ? run->rounding : it->call.act_rounding[0] ? it->call.act_rounding : "none";
}

void td_op_item_release(struct td_op_item *it)
{
    td_op_release(&it->rec);
    td_run_result_release(&it->candidate);
    td_run_result_release(&it->baseline);
    cJSON_Delete(it->speed);
    it->speed = NULL;
}
