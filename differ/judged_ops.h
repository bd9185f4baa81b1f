/* judged_ops.h - the ops of a fixture with the replayer's judgement on each, in a compact form;
 * those of the candidate joined with those of the baseline.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_JUDGED_OPS_H
#define TD_DIFFER_JUDGED_OPS_H

#include "differ/align.h"
#include "differ/op_place.h"
#include "format/m_class.h"
#include "format/op_status.h"
#include "format/slices.h"

/* Parts of an output over which an rms error is taken; a column, a row or a tile at a time. */
enum td_rms_part { TD_RMS_COL, TD_RMS_ROW, TD_RMS_TILE, TD_RMS_PARTS };

/* The error of one output, as the replayer's judge wrote it (docs/format.md, "judge"). Scores
 * are in units of what correct rounding allows. */
struct td_op_error {
    bool present;
    double score;                       /* of the worst element */
    double rel_l2, r0_rel_l2;           /* to the reference; to exact arithmetic. NaN: not given */
    double max_abs;
    double spread;                      /* between repeated runs, at the worst element */
    double row, col, tile;              /* rms score of the worst row, column, tile */
    int64_t row_at, col_at, tile_row, tile_col; /* where they are */
    int64_t nan, inf, zero;             /* elements of the output */
    int64_t ref_nonzero;                /* elements of the reference */
    int64_t repeats, unstable;          /* runs; elements that differ between them */
    int64_t worst_run;                  /* the run that has the score, from 0 */
    int64_t odd_runs;                   /* runs whose output is not the most frequent one */
    bool varies;                        /* the kernel is known to give other bits each time */
    const char *crash;                  /* NULL: none */
    struct td_slices *slices;           /* sums over slices, owned by the set; NULL: an older replay
                                           has none, or the set has too many (judged_slices.h) */
};

/* What differ makes of an op. COMPARED: the kind has no reference, so the output was compared with
 * another one; such an op is never worse. */
enum td_op_result {
    TD_RESULT_OK, TD_RESULT_UNDECIDED, TD_RESULT_BROKEN, TD_RESULT_WORSE, TD_RESULT_COMPARED
};

/* The GPU while an op was timed: [0] the baseline, [1] the candidate. */
struct td_judged_op_device {
    double sm_mhz[2];                   /* mean clock; NaN: not known */
    double throttled[2];                /* share of samples in which something held the clocks
                                           down */
    const char *throttled_by[2];        /* the first reason, or NULL */
    const char *unknown;                /* why nothing is known; NULL: it is known, or the op was
                                           not timed on a GPU */
};

struct td_bias_finding;
struct td_op_along_k;

/* One op. Strings are interned in the set: equal text, equal pointer. */
/* What a change of format is worth. */
enum td_format_change {
    TD_FORMAT_NOTED,                    /* weights are rounded to 16 bits otherwise */
    TD_FORMAT_ACCEPTED,                 /* the policy accepts it */
    TD_FORMAT_UNDECIDED
};

struct td_judged_op {
    const char *fixture; int64_t op;    /* its origin: the recording that holds it, its number
                                           there */
    int64_t step, pid;
    int64_t turn;                       /* its place in the order in which its group is sampled; -1:
                                           an older replay does not tell */
    int rank;                           /* of a tensor-parallel server; -1: none, or not known */
    const char *kind, *layer, *symbol;  /* layer, symbol: NULL when not known */
    const char *dtype;                  /* of the output */
    const char *act_rounding;           /* of the candidate, in a replay */
    const char *recorded_rounding, *baseline_rounding; /* NULL: as act_rounding */
    struct td_attr_view *attr;          /* [n_attrs], owned by the set */
    int n_attrs;
    int64_t m, n, k;                    /* -1: the kind has no such size */
    const char *weights;                /* dtype of the input "w": "Q4_1"; NULL: there is none */
    const char *shape;                  /* what tells kernels apart: "640x256 b4 g128 act" or
                                           "Q4_1 640x256" (N x K); the sizes of the output for a
                                           kind without N and K */
    int m_class;                        /* td_m_class() */
    /* from the replayer's judgement */
    enum td_op_status status;           /* NONE: not judged */
    const char *reason;
    struct td_op_over *over;            /* where the candidate is over its limit, owned by the set; NULL:
                                           it is not, or an older replay does not tell */
    struct td_op_along_k *along_k;      /* its errors by parts of K (op_along_k.h), owned by the set; NULL: not asked */
    bool damaged;                       /* recorded bytes that it needs are damaged */
    bool never_ran;                     /* it failed, crashed or hung before its kernel ran */
    double judge_floor, format_cost;    /* NaN: not given */
    struct td_op_error recorded, baseline, candidate;
    const char *baseline_failed;        /* how the baseline build ended, "crashed"; NULL: well, or none was named */
    struct td_op_error halves;          /* of right sums in halves, where the candidate or the baseline build declares
                                           such sums, and what it is compared with has none; else absent */
    int64_t halves_block;               /* products of a block of these */
    bool halves_of_baseline;            /* the baseline build declares them, not the candidate */
    int64_t halves_refused[2];          /* blocks that baseline and candidate declare and that are too small to be
                                           taken; 0: none */
    int64_t equal, total;               /* elements equal to the recorded output; total 0: only a
                                           digest was recorded */
    bool digest_differs;                /* a digest was recorded, and no run gave that output: nobody knows it */
    bool digest_found;                  /* a digest was recorded, and a run gave that output: `recorded` is of that */
    bool without_reference;
    bool has_output;                    /* its output is stored */
    /* of an op without a reference, beside the baseline build's output, else the recorded one: */
    bool same;                          /* bit-equal */
    double departs;                     /* relative L2; NaN: there was no output to compare with */
    double *hot, *cold;                 /* [n_hot][2], [n_cold][2]: ns of baseline and candidate */
    size_t n_hot, n_cold;
    const char *baseline_lacks;         /* why the baseline build did not run it, though it was to; NULL:
                                           it ran, or died, or there was none */
    const char *untimed;                /* why it has no times; NULL: it has, or was not to be timed */
    size_t starts;                      /* how often both processes were started while it was
                                           timed; pairs stand in order of the starts, equally
                                           many of each */
    int64_t starts_of;                  /* ops for which this is equal were timed in the same starts; 0: in their own */
    struct td_judged_op_device device;
    const struct td_judged_op *origin;  /* the baseline's record of the same op; NULL: none */
    uint64_t input;                     /* td_judged_slices_input() */
    const struct td_bias_finding *bias; /* filled by td_bias_measure(): it is of a group of ops that
                                           are biased; NULL: it is not */
    bool bias_unsure;                   /* by td_bias_mark_unsure(): nobody knows whether it is */
    /* filled by td_op_decide() */
    enum td_op_result result;
    bool format_changed;
    enum td_format_change format;
    const char *why;                    /* never NULL; td_judged_op_set_why() sets it */
    double limit, limit_of[TD_RMS_PARTS];
    double limit_runs;                  /* of the spread: roundings that two right runs may lie apart */
    double limit_rms;                   /* of the part that is over its limit, else the largest */
};

struct td_judged_ops {
    struct td_judged_op *op; size_t n, cap;
    struct td_strings *strings;
    size_t n_slices;                    /* ops with slices */
    bool distrusts_gpu;                 /* of the fixture that is read: a GPU computed references wrong */
    int thinned;                        /* only one op in 2^thinned keeps its slices */
};

/* Append all ops of a fixture. Corrupt frames are counted in *bad and skipped. TD_ELIMIT: an op has
 * more than TD_OP_MAX_ATTRS attributes. TD_ECORRUPT: a judgement holds a number that no judge can find
 * (format/judgement.h), or a replayed
 * op is there twice. */
int td_judged_ops_load(struct td_judged_ops *s, struct td_fixture *fx, size_t *bad,
                       struct td_error *err);
/* Append one op. An op without an origin is its own origin. TD_ELIMIT as above. */
int td_judged_ops_add(struct td_judged_ops *s, const char *fixture_id, const struct td_op *op,
                      struct td_error *err);
/* Find the baseline's record of each candidate op by its origin, and set `origin`. Returns how many
 * were found. Both sets keep their order; base must live as long as the candidate. */
size_t td_judged_ops_join(struct td_judged_ops *candidate, const struct td_judged_ops *base);
/* After td_judged_ops_join(): has each judged op the attributes of its origin, the type of its output, and the
 * error of the output that was recorded? TD_ECORRUPT: one has not; it would be weighed among ops of another
 * size, or by what is no limit. */
int td_judged_ops_check_origins(const struct td_judged_ops *candidate, struct td_error *err);
void td_judged_ops_release(struct td_judged_ops *s);

/* The op's layer, with the rank of its server's process: "model.layers.0.mlp.up_proj of rank 1".
 *   unknown : what stands for a layer that is not known
 *   out : the memory of the result when there is a rank; else the result is the layer itself */
const char *td_judged_op_layer_words(const struct td_judged_op *op, const char *unknown, char *out,
                                     size_t size);
/* Say why an op has its result, in place of what was said before. text is copied. */
void td_judged_op_set_why(struct td_judged_op *op, const char *text);
/* Does a run before b, as far as their steps and numbers tell? */
bool td_judged_op_runs_before(const struct td_judged_op *a, const struct td_judged_op *b);
/* The value of an attribute, or `missing`. */
int64_t td_judged_op_attr(const struct td_judged_op *op, const char *name, int64_t missing);
/* "ok", "inconclusive", "broken", "bad", "compared" */
const char *td_op_result_name(enum td_op_result r);

#endif
