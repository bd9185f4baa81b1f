/* judged_ops.h - the ops of two sides in a compact form, joined by origin.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_JUDGED_OPS_H
#define TD_DIFFER_JUDGED_OPS_H

#include "differ/align.h"
#include "format/m_class.h"
#include "format/op_status.h"

/* One E of the replayer's judgement (docs/format.md, "judge"). Scores are in units of what correct rounding allows. */
enum td_rms_part { TD_RMS_COL, TD_RMS_ROW, TD_RMS_TILE, TD_RMS_PARTS }; /* whose worst rms score: td_op_error.col, row, tile */

struct td_op_error {
    bool present;
    double score, rel_l2, r0_rel_l2, max_abs, spread; /* r0_rel_l2: to exact arithmetic; NaN: not said */
    double row, col, tile;              /* rms score of the worst one */
    int64_t row_at, col_at, tile_row, tile_col;
    int64_t nan, inf, zero, ref_nonzero;
    int64_t repeats, unstable;
    bool varies;              /* the kernel is known to give other bits each time */
    const char *crash;                  /* NULL: none */
};

/* COMPARED: there is no reference for this kind, its output was set beside another; never worse, whatever came out. */
enum td_op_result { TD_RESULT_OK, TD_RESULT_UNDECIDED, TD_RESULT_BROKEN, TD_RESULT_WORSE, TD_RESULT_COMPARED };

/* What the GPU was like when a sample of the baseline's [0] and of the candidate's [1] ended. */
struct td_judged_op_device {
    double sm_mhz[2];                   /* mean; NaN: not known */
    double throttled[2];                /* share of the samples in which something held the clocks down */
    const char *throttled_by[2];        /* the first reason, or NULL */
    const char *unknown;                /* why nothing of it is known; NULL: it is, or the op was not timed on a GPU */
};

/* Strings are interned in the set: equal text, equal pointer. */
struct td_judged_op {
    const char *fixture; int64_t op;    /* origin: the recording that holds it, its number there */
    int64_t step, pid;
    int rank;                           /* of a tensor-parallel server; -1: none, or unknown */
    const char *kind, *layer, *symbol;  /* layer, symbol: NULL when unknown */
    const char *dtype;                  /* of the output */
    const char *act_rounding;           /* of the candidate, in a replay */
    const char *recorded_rounding, *baseline_rounding; /* NULL: as act_rounding */
    struct td_attr_view *attr;          /* [n_attrs], owned by the set */
    int n_attrs;
    int64_t m, n, k;
    const char *weights;                /* dtype of the input "w": "Q4_1"; NULL: the kind has no such input */
    const char *shape;                  /* "640x256 b4 g128 act", "Q4_1 640x256": N x K and what else tells kernels apart; the output's
                                           sizes for a kind without N and K */
    int m_class;                        /* td_m_class() */
    enum td_op_status status;           /* NONE: not judged */
    const char *reason;
    double judge_floor, format_cost;    /* NaN: not said */
    struct td_op_error recorded, baseline, candidate;
    int64_t equal, total;               /* total 0: only a digest */
    bool without_reference;
    bool same;                          /* without_reference: bit-equal to the baseline build's output, else to the recorded one */
    double departs;                     /* without_reference: relative L2 from that output; NaN: there was none to compare with */
    double *hot, *cold;                 /* base_ns, new_ns in turn: [n_hot][2] */
    size_t n_hot, n_cold;
    size_t starts;                      /* of both processes while it was timed; pairs stand in their order, equally many of each */
    struct td_judged_op_device device;
    const struct td_judged_op *origin;        /* the baseline's record of the same op; NULL: none */
    /* filled by td_numerics_judge */
    enum td_op_result result;
    bool format_changed;
    char why[240];
    double limit, limit_of[TD_RMS_PARTS], limit_rms; /* limit_rms: of the part that is over its limit, else the largest */
};

struct td_op_set {
    struct td_judged_op *op; size_t n, cap;
    struct td_strings *strings;
};

/* Both refuse an op with more than TD_OP_MAX_ATTRS attributes: TD_ELIMIT. Append a fixture's ops; an op without an origin is its own. Bad frames are counted in *bad. */
int td_op_set_load(struct td_op_set *s, struct td_fixture *fx, size_t *bad, struct td_error *err);
int td_op_set_add(struct td_op_set *s, const char *fixture_id, const struct td_op *op, struct td_error *err);
/* Set `origin` of each candidate op; returns how many found theirs. Both sets keep their order. */
size_t td_op_set_join(struct td_op_set *candidate, const struct td_op_set *base);
void td_op_set_release(struct td_op_set *s);

/* "model.layers.0.mlp.up_proj", "model.layers.0.mlp.up_proj of rank 1"; `unknown` where it has no name. out: where it has a rank. */
const char *td_judged_op_layer_words(const struct td_judged_op *op, const char *unknown, char *out, size_t size);
int64_t td_judged_op_attr(const struct td_judged_op *op, const char *name, int64_t missing);
const char *td_op_result_name(enum td_op_result r); /* "ok", "inconclusive", "broken", "worse", "compared" */

#endif
