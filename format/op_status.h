/* op_status.h - what became of a replayed op: "status" of docs/format.md, "judge".
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_OP_STATUS_H
#define TD_FORMAT_OP_STATUS_H

/* The order is that of the columns of replay's summary. NONE is never written: the op was not judged. */
enum td_op_status { TD_OP_NONE, TD_OP_OK, TD_OP_UNSUPPORTED, TD_OP_FAILED, TD_OP_CRASHED, TD_OP_HUNG, TD_OP_BROKEN };
#define TD_OP_STATUS_COUNT (TD_OP_BROKEN + 1)

const char *td_op_status_name(enum td_op_status s); /* "none", "ok", "unsupported" ... */
/* BROKEN: no status has this name. */
enum td_op_status td_op_status_parse(const char *name);

#endif
