/* received_op.h - one op as the tap sent it: read out of its ring, and checked.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Another process wrote the record and may go on writing to it: everything but the bytes of tensors
 * is copied first, and then checked, so that what was checked is what is used. */
#ifndef TD_RECORDER_TAP_CLIENT_RECEIVED_OP_H
#define TD_RECORDER_TAP_CLIENT_RECEIVED_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "format/records.h"
#include "recorder/tap/core/tap_proto.h"

struct client_op {
    const struct tap_op *rec;         /* borrowed: a copy of the record's head */
    const char *name;                 /* of the layer, in rec; NULL: none */
    struct td_attr attr[TAP_MAX_ATTRS];
    struct tap_tensor tensor[TAP_MAX_WEIGHTS + TAP_MAX_INPUTS + 1]; /* weights, inputs, output */
    struct td_weight_fingerprint fingerprint; /* of the weight, if rec->has_fingerprint */
    struct td_op_launch launch[TAP_MAX_LAUNCHES];
    const uint8_t *data[TAP_MAX_INPUTS + 1]; /* of inputs (NULL: opaque) and the output, in the
                                                ring */
    uint64_t bytes;                   /* of inputs and output */
};

/* Fill *op from a record.
 *   rec : a copy of the record's head with rec->rec.size checked; borrowed by *op
 *   at  : the record in its ring, rec->rec.size bytes
 * False: the record does not hold together. True: counts, strings, shapes and sizes do; every
 * tensor's elements lie within its bytes, for the types that model/dtype.h knows. */
bool client_op_read(struct client_op *op, const struct tap_op *rec, const uint8_t *at);

/* An attribute of the op; `otherwise` without it. */
int64_t client_op_attr(const struct client_op *op, const char *name, int64_t otherwise);

/* Is it no product, but what stands beside them in a server (norms, activations)? Nodes of ggml are
 * not told apart. */
bool client_op_is_beside(const struct client_op *op);

/* Describe a tensor in the fixture's words; blob and ref stay empty. */
void client_tensor_rec(struct td_tensor_rec *t, const struct tap_tensor *from);

#endif
