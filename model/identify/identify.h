/* identify.h - the weights of one layer, from what a tap sent of them to what the fixture keeps: checkpoint layout, name, reference.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A settler knows one (kind, run-time layout) and is a line of the table in identify.c. It is called once per set of weights, at the first op
 * that uses it, in the pump's thread with the lock held; the result serves all later ops of the set. */
#ifndef TD_MODEL_IDENTIFY_IDENTIFY_H
#define TD_MODEL_IDENTIFY_IDENTIFY_H

#include <stdbool.h>

#include "common/error.h"
#include "format/records.h"
#include "model/identify/layer_index.h"
#include "recorder/tap/core/tap_proto.h"

#define TD_IDENTIFY_TENSORS (TAP_MAX_WEIGHTS + 2)
#define TD_IDENTIFY_EXTRA 8

struct td_identify {
    /* in, borrowed; written by another process: counts, strings, ndim and the fit of shape and bytes (of dtypes that model/dtype.h knows) are
     * checked, whether they make sense together is not */
    const char *kind, *layout;
    const char *name;                  /* what the front end calls the layer, or NULL */
    const struct tap_fingerprint *print;     /* or NULL */
    const struct tap_attr *attrs; int n_attrs;
    const struct tap_tensor *w; int n_w;
    const uint8_t *const *bytes;       /* [n_w] of w[i].bytes each, aligned for any type; NULL: opaque */
    struct td_layer_index *layers;          /* the checkpoint, or NULL: none known */

    /* out, zeroed before */
    struct td_tensor_rec t[TD_IDENTIFY_TENSORS]; int n; /* as ops will have them; blob and stored are filled by the caller where data is not NULL */
    const void *data[TD_IDENTIFY_TENSORS];              /* the bytes to keep: bytes[i], the checkpoint's, or owned[i]; NULL: described only */
    size_t size[TD_IDENTIFY_TENSORS];
    void *owned[TD_IDENTIFY_TENSORS];    /* freed by the caller, whatever was returned; so are the refs */
    int matches;                       /* layers of the checkpoint with this content. 1: layer is its name. 0: the bytes (if any) are all we know */
    char layer[512];                   /* "": no name */
    bool named_by_call;                /* layer is nothing to go by: ops that share these weights have names of their own, the front end's */
    struct tap_attr extra[TD_IDENTIFY_EXTRA]; int n_extra; /* attributes that the weights decide; one that the op has already is replaced */
};

/* 0; TD_ECORRUPT: no tap sends this (the ring is not read any further); TD_EUNSUPPORTED: kept as sent, without a name; others: the op is lost. */
typedef int td_identify_fn(struct td_identify *s, struct td_error *err);

struct td_identify_entry { const char *kind, *layout; td_identify_fn *settle; }; /* kind "ggml_*": all that begin so; layout NULL: any */

/* Settle by the table; what no line knows is kept as it was sent, under the front end's name. */
int td_identify_weights(struct td_identify *s, struct td_error *err);
/* Free and clear the result, also a half-made one. */
void td_identify_release(struct td_identify *s);

/* ---- for identify_table -------------------------------------------------------------------------------------------------- */

/* A tap's description of a tensor as the fixture's; no blob. */
void td_identify_tensor(struct td_tensor_rec *t, const struct tap_tensor *from);
/* Tensor i as it was sent becomes the next of the result: description and bytes. */
void td_identify_as_sent(struct td_identify *s, int i);
/* Set t->ref: the bytes with this hash are these tensors of the checkpoint (a folder or a file). transform: "stack" and the like, or NULL. */
void td_identify_set_ref(struct td_tensor_rec *t, const char *checkpoint, const char *const *tensors, int n, const char *transform, struct td_hash hash);
/* The bytes of the tensor of this role, as it was sent, if it is dense and has this form. NULL: it has not, or there is none. */
const void *td_identify_sent(const struct td_identify *s, const char *role, const char *dtype, int ndim, const int64_t *shape);
bool td_identify_has(const struct td_identify *s, const char *role);
/* An attribute of the op, or otherwise. */
int64_t td_identify_attr(const struct td_identify *s, const char *name, int64_t otherwise);
void td_identify_add_attr(struct td_identify *s, const char *name, int64_t value);

/* ---- identify_table ------------------------------------------------------------------------------------------------------ */

int td_identify_gptq(struct td_identify *s, struct td_error *err); /* identify_gptq.c: gptq_gemm, layout "checkpoint" */
int td_identify_gguf(struct td_identify *s, struct td_error *err); /* identify_gguf.c: every ggml_* kind, any layout */
int td_identify_exllama(struct td_identify *s, struct td_error *err); /* identify_exllama.c: gptq_gemm, layout "exllama" */
int td_identify_marlin(struct td_identify *s, struct td_error *err); /* identify_marlin.c: gptq_gemm, layout "marlin" */
/* identify_vllm_cpu.c: gptq_gemm, layouts "vllm_int4_vnni" and "vllm_wna16_n16"; gemm, any layout (by its print) */
int td_identify_vllm_int4(struct td_identify *s, struct td_error *err);
int td_identify_vllm_wna16(struct td_identify *s, struct td_error *err);
int td_identify_vllm_gemm(struct td_identify *s, struct td_error *err);
int td_identify_gemm(struct td_identify *s, struct td_error *err); /* identify_vllm_cpu.c: gemm, layout "checkpoint": its bytes came along */

#endif
