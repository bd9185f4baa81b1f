/* op_rewrite.h - turn the record of an op into that of its replay.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_OP_REWRITE_H
#define TD_REPLAYER_OP_REWRITE_H

#include "format/fixture.h"
#include "replayer/op_item.h"

/* Change it->rec: inputs by hash, the new output (written to w unless it is the recorded one), the new build,
 * where the op comes from.
 *   library : path of the build, or NULL
 *   build   : how it names itself, or its provider */
int td_op_rewrite(struct td_op_item *it, struct td_writer *w, const char *fixture_id, const char *library, const char *build,
                  struct td_error *err);

#endif
