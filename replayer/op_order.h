/* op_order.h - the order in which the ops of a group are taken when not all of them are.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A plan or a sample takes, of each group (op_list.h), the ops that come first in this order.
 * Its beginning of any length is spread evenly over layers, and within a layer over steps: first one op
 * of each layer, then a second one of each, half the recording away, and so on. The order follows from
 * the recording alone, not from --only, a shard or a machine: of two samples one holds the other, so that
 * what was found in one (the places of an accepted finding) is looked at again in the other. */
#ifndef TD_REPLAYER_OP_ORDER_H
#define TD_REPLAYER_OP_ORDER_H

#include "replayer/op_list.h"

#define TD_OP_ORDER_VERSION 2 /* 2: groups are told apart by their formats, too */

/* Fill list->order, the rank of each item, and the `first` of each group. The first op of a group's order
 * is the one that ran last. TD_ENOMEM. */
int td_op_order_make(struct td_op_list *list, struct td_error *err);

#endif
