/* op_filter.h - does each --only match an op? One that matches none would check nothing.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_OP_FILTER_H
#define TD_REPLAYER_OP_FILTER_H

#include "common/args.h"
#include "format/fixture.h"

/* Compare each pattern with the fixture's ops, as td_op_list_scan() will. TD_EINVAL: one of them matches
 * no op; the sentence names the kernels and layers that there are (a few of many). Without patterns
 * nothing is read. A fixture without readable ops is left to others: TD_OK. */
int td_op_filter_check(struct td_fixture *fx, const struct td_arg_list *only, struct td_error *err);

#endif
