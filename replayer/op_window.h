/* op_window.h - read the records of chosen ops, in an order that is not that of the file.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A record takes some kilobytes of memory, and a fixture may hold a million. So at most TD_OP_WINDOW of
 * them are in memory: the file is read once for so many of the ops that come next. */
#ifndef TD_REPLAYER_OP_WINDOW_H
#define TD_REPLAYER_OP_WINDOW_H

#include "replayer/op_list.h"

#define TD_OP_WINDOW 16384

struct td_op_window;

/* A window on these ops of the list, in this order. fx and list are borrowed for its life.
 *   which : [n] places in list->items, each once; taken, also on failure; from malloc
 * TD_ENOMEM. */
int td_op_window_open(struct td_fixture *fx, const struct td_op_list *list, int32_t *which, size_t n,
                      struct td_op_window **out, struct td_error *err);
/* The op that td_op_window_next() gives next; NULL: none is left. */
const struct td_op_choice *td_op_window_peek(const struct td_op_window *w);
/* The record of the op that comes i ops behind that one; NULL: it is not in memory yet, or there is none. Valid until it is taken. */
const struct td_op *td_op_window_ahead(const struct td_op_window *w, size_t i);
/* Take the next op: 1: *op is the caller's; 0: none is left; < 0: the recording cannot be read. */
int td_op_window_next(struct td_op_window *w, struct td_op *op, struct td_error *err);
void td_op_window_close(struct td_op_window *w); /* NULL is allowed */

#endif
