/* op_desc.h - how an op is described: the limits that hold everywhere, and the parts that have one
 * layout everywhere. SPDX-License-Identifier: Apache-2.0
 *
 * An op passes through six places: the tap (tap.h), its records in shared memory (tap_proto.h), the
 * recorder's reader, the fixture (format/records.h), an op in memory (kernels/ops/op.h) and the
 * child protocol (replayer/child_protocol.h); the differ reads the fixture's. They all use the limits of
 * this file, so that none has to cut what another one let pass. What exceeds a limit is refused
 * with a sentence that names the op and the limit; nothing is shortened or left out.
 *
 * The tap, which links nothing of common/, includes this file: it includes <stdint.h> alone and
 * declares no functions.
 *
 * There is no struct for a tensor here. Each place adds its own and stores the strings its own way:
 * a borrowed view without copies in the tap's hot path, a record with the bytes that follow it, a
 * record with its content address and JSON reference in the fixture, an element type and a pointer
 * in memory, offsets in the arena. All of them take their sizes from here. */
#ifndef TD_COMMON_DESC_OP_DESC_H
#define TD_COMMON_DESC_OP_DESC_H

#include <stdint.h>

/* ---- limits -------------------------------------------------------------------------------------------------------- */

#define TD_OP_MAX_DIMS 8           /* of a tensor */
#define TD_OP_MAX_INPUTS 10        /* tensors that differ from call to call */
#define TD_OP_MAX_WEIGHTS 6        /* tensors that stay equal from call to call, as the kernel reads them */
#define TD_OP_MAX_STORED_WEIGHTS (TD_OP_MAX_WEIGHTS + 2) /* the same in a checkpoint's layout, which may hold more of them */
#define TD_OP_MAX_TENSORS (TD_OP_MAX_INPUTS + TD_OP_MAX_STORED_WEIGHTS) /* inputs of a stored op, weights among them */
#define TD_OP_MAX_CALL_ATTRS 24    /* that a call brings with it */
#define TD_OP_MAX_WEIGHT_ATTRS 8   /* that its weights decide */
#define TD_OP_MAX_ATTRS (TD_OP_MAX_CALL_ATTRS + TD_OP_MAX_WEIGHT_ATTRS) /* of a stored op */
#define TD_OP_MAX_LAUNCHES 64

/* Bytes of strings, the NUL among them */
#define TD_OP_MAX_KIND 32          /* "gptq_gemm" */
#define TD_OP_MAX_ROLE 24          /* "qweight" */
#define TD_OP_MAX_DTYPE 16         /* "BF16", "Q4_1" */
#define TD_OP_MAX_ATTR_NAME 24     /* "group_size" */
#define TD_OP_MAX_LAYOUT 32        /* "exllama" */
#define TD_OP_MAX_ROUNDING 32      /* "weight-bf16+bias-after" */
#define TD_OP_MAX_SYMBOL 512       /* C++ names of kernels are long */

/* ---- parts --------------------------------------------------------------------------------------------------------- */

/* An attribute: a small integer with a name. Unknown names are carried along and ignored. */
struct td_attr { char name[TD_OP_MAX_ATTR_NAME]; int64_t value; };

/* The attribute of an op whose weights are stored as the server had them, because nobody could undo their layout: 1 */
#define TD_OP_LAYOUT_UNKNOWN "layout_unknown"

/* The same where the name is somebody else's: static, or interned. It has fewer than TD_OP_MAX_ATTR_NAME bytes. */
struct td_attr_view { const char *name; int64_t value; };

enum td_launch_flags { TD_LAUNCH_IN_GRAPH = 1 }; /* launched by a CUDA graph */

/* One launch of a kernel that is part of an op. */
struct td_op_launch {
    int64_t rows[2];               /* of the op: the first, and the one behind the last */
    uint32_t grid[3], block[3], shared_bytes; /* shared_bytes: dynamic */
    uint32_t flags;                /* enum td_launch_flags */
    char symbol[TD_OP_MAX_SYMBOL]; /* "": the op's */
};

/* Both travel through shared memory as they are. */
_Static_assert(sizeof(struct td_attr) == 32 && sizeof(struct td_op_launch) == 48 + TD_OP_MAX_SYMBOL, "no padding");

#endif
