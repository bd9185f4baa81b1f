/* tap_call_desc.h - how a front describes one call of a kernel.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A front fills a struct tap_call and hands it to tap_call_begin(), which copies what it needs. The
 * functions below are pure: any thread, no allocation, no waiting, errno is kept. */
#ifndef TD_RECORDER_TAP_CORE_TAP_CALL_DESC_H
#define TD_RECORDER_TAP_CORE_TAP_CALL_DESC_H

#include <stdbool.h>
#include <stdint.h>

#include "recorder/tap/core/tap_proto.h"

#pragma GCC visibility push(hidden)

/* A tensor of a call. The strings are static; data is borrowed until the call ends. Shape and
 * strides are those of the copy, as the fixture will say them: in elements, in blocks for a block
 * format. */
struct tap_operand {
    const char *role, *dtype;      /* as in docs/format.md: "a", "F16"; "w", "Q4_1" */
    int32_t ndim;                  /* <= TAP_DIMS; outermost dimension first */
    int64_t shape[TAP_DIMS], strides[TAP_DIMS];
    const void *data;              /* first byte; NULL: opaque, the bytes cannot be read */
    uint64_t address;              /* where the server has it, when data is a copy; 0: at data */
    uint64_t bytes;                /* of the copy; 0 when opaque */
    uint64_t row_bytes, pitch;     /* row_bytes 0: one piece; else rows of row_bytes, `pitch` bytes
                                    * apart, are copied densely one after the other */
};

/* One of several launches of which a call is made: a struct td_op_launch whose symbol is
 * borrowed. */
struct tap_call_launch {
    int64_t rows[2];               /* of the call's rows: first, and one behind the last */
    uint32_t grid[3], block[3], shared_bytes;
    uint32_t flags;                /* enum td_launch_flags */
    const char *symbol;            /* NULL: the call's */
};

/* What a front knows of one call of a kernel. Borrowed by tap_call_begin() only. */
struct tap_call {
    const char *kind, *symbol;     /* static: "gptq_gemm", "td_gptq_gemm" */
    const char *layout, *rounding; /* static, may be NULL: "checkpoint", "none" */
    const char *name;              /* of the layer or node ("blk.3.ffn_down.weight"), or NULL */
    const struct td_weight_fingerprint *fingerprint; /* of opaque weights, or NULL */
    struct td_attr_view attrs[TAP_MAX_ATTRS]; int n_attrs;
    struct tap_operand w[TAP_MAX_WEIGHTS]; int n_w; /* equal from call to call: sent once an arm */
    uint32_t weight_set;           /* not 0: w[] was sent by tap_send_weights(); only the alignment
                                    * of its data is used */
    const struct tap_call_launch *launches; /* NULL: the call is not made of launches */
    int n_launches;                /* <= TAP_MAX_LAUNCHES */
    struct tap_operand in[TAP_MAX_INPUTS]; int n_in;
    struct tap_operand out;        /* read after the call */
    int64_t rows;                  /* M: the size class, for a thread that has no steps */
    enum tap_dump_reason dump_reason; /* the call comes from the flight recorder's ring, and why */
};

/* Does the description make sense: strings that must be there, counts within their limits, sizes
 * that cannot wrap? */
bool tap_operand_is_sane(const struct tap_operand *o);
bool tap_call_is_sane(const struct tap_call *call); /* false also for NULL */

/* Bytes that are copied of an operand: 0 when it is opaque. */
static inline uint64_t tap_operand_bytes(const struct tap_operand *o)
{
    return o->data ? o->bytes : 0;
}
/* Copy bytes [offset, offset + n) of what an operand is copied as. */
void tap_operand_copy(uint8_t *to, const struct tap_operand *o, uint64_t offset, uint64_t n);

/* Bytes of the inputs and the output; 0 for a call that makes no sense. */
uint64_t tap_call_bytes(const struct tap_call *call);

#pragma GCC visibility pop
#endif
