/* lanes.h - the table of all lanes, and which of them a command line asks for.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_LANES_H
#define TD_DIFFER_LANES_H

#include "common/error.h"
#include "differ/lane.h"

extern const struct td_lane_type *const td_lane_types[TD_N_LANES];

#define TD_LANES_LIST_MAX 256
/* Write the names of all lanes into out, with `separator` between them, and return out. */
const char *td_lanes_list(const char *separator, char out[TD_LANES_LIST_MAX]);

/* Ask for the lanes that --lanes names, with commas between them. NULL: nothing was named.
 * TD_EINVAL: an unknown name; the error lists the known ones. */
int td_lanes_ask(struct td_lane lanes[TD_N_LANES], const char *list, struct td_error *err);
/* Ask for the lanes that judge what was replayed.
 *   list : some of "answers", "ops", "pairs" with commas between them (TD_REPLAYED_*), or NULL */
int td_lanes_ask_for_replayed(struct td_lane lanes[TD_N_LANES], const char *list,
                              struct td_error *err);

#endif
