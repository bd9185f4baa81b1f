/* op_status.c - names of an op's status.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/op_status.h"

#include <string.h>

static const char *const NAMES[TD_OP_STATUS_COUNT] = {"none", "ok", "unsupported", "failed", "crashed", "hung", "broken"};

const char *td_op_status_name(enum td_op_status s)
{
    return NAMES[s];
}

enum td_op_status td_op_status_parse(const char *name)
{
    for (int i = TD_OP_OK; i < TD_OP_STATUS_COUNT; i++)
        if (!strcmp(name, NAMES[i]))
            return (enum td_op_status)i;
    return TD_OP_BROKEN;
}
