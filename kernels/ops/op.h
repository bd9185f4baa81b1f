/* op.h - an op in memory: one kernel call in logical terms, with its tensors, ready to be run or judged.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An op is what a record in ops.jsonl.zst becomes once its blobs are loaded. Providers (provider.h) run it, a kind of op
 * (op_kind.h) knows what it means: which roles it needs, how to check them, and what the right answer is. */
#ifndef TD_KERNELS_OPS_OP_H
#define TD_KERNELS_OPS_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/desc/op_desc.h"
#include "common/error.h"
#include "common/hash.h"
#include "model/dtype.h"

struct td_tensor {
    char role[TD_OP_MAX_ROLE];       /* "a", "qweight", "qzeros", "scales", "g_idx", "w", "bias", "c", "s0" ... "s9" */
    enum td_dtype dtype;
    int ndim;
    int64_t shape[TD_OP_MAX_DIMS];   /* the last dimension of a block format counts blocks of td_dtype_block() elements */
    int64_t strides[TD_OP_MAX_DIMS]; /* in elements, or blocks; row-major dense unless the record says otherwise */
    void *data;                      /* bytes as recorded (the memory image that shape and strides describe) */
    size_t size_bytes;
    size_t align;                    /* alignment of the address when recorded (largest power of two, at most 4096) */
    struct td_hash content;          /* of these bytes; zero: not known */
};

struct td_op_call {
    char kind[TD_OP_MAX_KIND];       /* "gptq_gemm" */
    char act_rounding[TD_OP_MAX_ROUNDING]; /* what the recorded kernel declares that it rounds
                                              (op_rounding.h): "none", "q8_1",
                                              "weight-f16+bias-after" ...; "" is "none" */
    struct td_attr attrs[TD_OP_MAX_ATTRS]; /* gptq_gemm: m n k bits group_size zero_offset act_order */
    int n_attrs;
    struct td_tensor in[TD_OP_MAX_TENSORS];
    int n_in;
    struct td_tensor out;            /* the output's description; data is NULL until somebody provides it */
    /* of the record's impl: what helps a provider to choose among kernels, never what the op means; "" unknown */
    char symbol[TD_OP_MAX_SYMBOL];   /* the kernel that ran */
    char layout[TD_OP_MAX_LAYOUT];   /* how its weights lay: "exllama"; the tensors here are in the
                                        checkpoint's layout whatever it says */
    struct td_op_launch launches[TD_OP_MAX_LAUNCHES]; /* what it was made of, in order */
    int n_launches;                  /* 0: not recorded, or not whole */
    bool guard; /* tensors end at memory that nobody may touch; a provider that copies them places
                   its copies so too */
};

int64_t td_op_attr(const struct td_op_call *op, const char *name, int64_t missing);
const struct td_tensor *td_op_in(const struct td_op_call *op, const char *role); /* NULL: no such role */
/* Does this input differ from call to call of one layer? The routing of a product with experts does,
 * as A and its scales do. */
bool td_op_input_is_of_the_call(const char *role);

/* The reference result of an op, for the judge. All arrays [rows, cols] row-major, double, owned by the struct.
 *   r0  : double arithmetic on the stored inputs and the dequantised weights
 *   r1  : r0 with the rounding that act_rounding names, of activations or weights; the same array as
 *         r0 if it names none
 *   mag : |A| * |W| of r1, the magnitude that bounds the rounding error of any summation order
 *   slack : the error that a declared rounding on the way from the sums to c explains, besides those
 *         that mag and the rounding of c explain; NULL: there is none
 *   ordered : what a kernel whose declared rounding depends on the order of its sums gives in the
 *         order that is expected of it, before c is rounded; NULL: the rounding does not. An output
 *         that was added in this order is held against it, any other against r1 and slack
 * An element of r whose inputs hold NaN or Inf is NaN or Inf as IEEE double arithmetic gives it. */
struct td_op_ref {
    int64_t rows, cols, inner;       /* inner = K, the number of products in an element */
    double *r0, *r1, *mag, *slack, *ordered;
    unsigned char *unjudged;         /* [rows] 1: the op does not compute this row, whose r0, r1 and mag
                                        are 0; NULL: it computes all */
};
bool td_op_ref_has_row(const struct td_op_ref *ref, int64_t row);
void td_op_ref_release(struct td_op_ref *ref);

#endif
