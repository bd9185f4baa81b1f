/* weight_set.h - the weights of one layer, as a server holds them and as they are stored.
 * SPDX-License-Identifier: Apache-2.0
 *
 * All ops of a layer share one weight set. The caller fills the input from what a tap sent; an
 * identifier (identify_entries.h) fills the output: the tensors in the checkpoint's layout, the
 * layer's name, and where the checkpoint has the same bytes. */
#ifndef TD_MODEL_IDENTIFY_WEIGHT_SET_H
#define TD_MODEL_IDENTIFY_WEIGHT_SET_H

#include <stdbool.h>

#include "common/desc/op_desc.h"
#include "common/desc/weight_fingerprint.h"
#include "common/error.h"
#include "format/records.h"
#include "model/dtype.h"
#include "model/identify/layer_index.h"

#define TD_WEIGHT_SET_NAME 512

struct td_weight_tensor {
    struct td_tensor_rec rec;          /* role, dtype, shape, strides, align; of an output also ref.
                                          blob and stored: unused */
    const void *data;                  /* in: aligned for any type; NULL: opaque, the server could
                                          not read it. out: the bytes to store; NULL: the tensor is
                                          only described */
    size_t size;                       /* of data, bytes; 0 without */
    void *owned;                       /* out: data when it was allocated for this set; else NULL */
};

struct td_weight_set {
    /* In, borrowed. It comes from another process: strings, counts and sizes hold together (a
     * tensor's elements lie within its bytes, for the types that model/dtype.h knows); whether the
     * tensors fit the attributes is for the identifier to check. */
    const char *kind, *layout;         /* of the op; "" for no layout */
    const char *name;                  /* what the server's framework calls the layer; NULL:
                                          nothing */
    const struct td_weight_fingerprint *fingerprint; /* NULL: none */
    const struct td_attr *attrs; int n_attrs; /* of the op */
    const struct td_weight_tensor *sent; int n_sent;
    struct td_layer_index *layers;     /* the checkpoint; NULL: none is known */

    /* Out, zeroed by the caller. */
    struct td_weight_tensor t[TD_OP_MAX_STORED_WEIGHTS]; int n;
    int matches;                       /* layers of the checkpoint with this content. 1: `layer` is
                                          the name; 0: unknown */
    char layer[TD_WEIGHT_SET_NAME];    /* "": no name */
    bool named_by_call;                /* ops that share these weights have names of their own: use
                                          those, not `layer` */
    struct td_attr extra[TD_OP_MAX_WEIGHT_ATTRS]; int n_extra; /* they replace attributes of the
                                                                      op with the same name */
    bool layout_unknown;               /* t is what was sent, in a layout that could not be undone:
                                          why_unknown says why, and an attribute says so too */
    char why_unknown[160];
    const char *no_room;               /* what found no room in t or extra; NULL: nothing. Then
                                          td_identify_weights() fails with TD_ELIMIT */
};

/* ---- the input ------------------------------------------------------------------------------- */

/* The bytes that were sent for a role, if that tensor is dense and has exactly this type and shape.
 * NULL: it has not, it is opaque, or there is no tensor of the role. */
const void *td_weight_set_sent(const struct td_weight_set *s, const char *role, const char *dtype,
                               int ndim, const int64_t *shape);
/* The same for a type of 16 bits, F16 or BF16, which becomes *dtype. */
const void *td_weight_set_sent_16bit(const struct td_weight_set *s, const char *role,
                                     enum td_dtype *dtype, int ndim, const int64_t *shape);
/* Was a tensor of this role sent, readable or not? */
bool td_weight_set_has(const struct td_weight_set *s, const char *role);
/* The value of an attribute of the op, or `otherwise`. */
int64_t td_weight_set_attr(const struct td_weight_set *s, const char *name, int64_t otherwise);

/* ---- the output ------------------------------------------------------------------------------ */

/* Each notes in s->no_room what has no room.
 *
 * Add tensor `from` as it was sent: its description and its bytes. Returns the new tensor; NULL:
 * there is no room. */
struct td_weight_tensor *td_weight_set_add_sent(struct td_weight_set *s,
                                                const struct td_weight_tensor *from);
/* Add a dense, row-major [rows, cols] tensor, or [rows] when cols is 0. The set takes data, which
 * malloc() made, also when there is no room. */
void td_weight_set_add_dense(struct td_weight_set *s, const char *role, const char *dtype,
                             int64_t rows, int64_t cols, void *data);
/* The same of `count` matrices [rows, cols], or vectors [rows] when cols is 0. */
void td_weight_set_add_stack(struct td_weight_set *s, const char *role, const char *dtype,
                             int64_t count, int64_t rows, int64_t cols, void *data);
void td_weight_set_add_attr(struct td_weight_set *s, const char *name, int64_t value);
/* TD_ELIMIT, with a sentence: something had no room. */
int td_weight_set_check(const struct td_weight_set *s, struct td_error *err);
/* Free and clear the output, also a half-made one; the input stays. */
void td_weight_set_release(struct td_weight_set *s);

#endif
