/* slice_tests.h - is a slice of a kernel's outputs biased, beside the baseline's?
 * SPDX-License-Identifier: Apache-2.0
 *
 * One test: of a set of ops, a slice (format/slices.h), and one of two measures,
 *   slope : sum(e x) / sum(x x): by which share the outputs are too large
 *   mean  : sum(e) / n: by how much they are too high, in units of what correct rounding allows.
 * The estimate is the candidate's less the baseline's, over all ops of the set together. Its variance
 * is the sum of two, for an error that is the same in several ops, or in several columns, is one
 * piece of evidence and not several:
 *   - of ops: blocks are ops with equal inputs. The jackknife over blocks, with the largest leverage in
 *     place of each block's own: exactly that of a mean where all blocks weigh alike, larger where not.
 *   - of columns: how far the 64 classes of columns lie apart, inside the slice and outside of it; of a
 *     last tile of columns, the classes that have none of it (all of them, where fewer than 8 have none).
 *     Of a tile of fewer than 8 columns what columns have beyond the ops, which repeats, counts nine times:
 *     the error of a single column need not be normal, as the mean of a class is.
 * Degrees of freedom are the smaller of both (of blocks, as many as would weigh alike). All of this can
 * only make a test more careful than one over ops alone. */
#ifndef TD_DIFFER_SLICE_TESTS_H
#define TD_DIFFER_SLICE_TESTS_H

#include "differ/judged_ops.h"

enum td_slice_kind { TD_SLICE_ALL, TD_SLICE_COLS, TD_SLICE_ROWS, TD_SLICE_COL_TAIL, TD_SLICE_ROW_TAIL };
struct td_slice { enum td_slice_kind kind; int mod, rest; }; /* of a tail: mod is the size of the tile */
/* "all elements", "columns = 0 mod 4", "the last tile of 32 columns", "the last column" */
void td_slice_words(const struct td_slice *s, char *out, size_t n);

enum td_slice_measure { TD_SLICE_SLOPE, TD_SLICE_MEAN, TD_SLICE_COARSE };

/* An op whose slices are known on both sides. odd: of td_slice_mark_odd(). */
struct td_slice_op {
    struct td_judged_op *op;
    const struct td_slices *old, *now;
    const struct td_slices *halves; /* of right sums in halves, beside which coarseness is judged; NULL: there are none */
    uint64_t input;
    bool odd;
};

/* What was found of a set, a slice and a measure.
 *   est : slope, mean: the candidate's less the baseline's; coarse: the candidate's rms error over the
 *         baseline's (which counts as `floor` where it is smaller)
 *   error : its standard error; of coarse: of the logarithm
 *   p   : two-sided, for no difference, and, where the signs of both sides differ, for no difference of
 *         their sizes either (the larger p of both); coarse: one-sided, for a ratio up to the limit
 *   old_size, now_size : of slope and mean, how large the bias of each side is, in units of what correct
 *         rounding allows (rms over the slice); of coarse the rms errors */
struct td_slice_test {
    struct td_slice slice;
    enum td_slice_measure measure;
    double est, error, dof, p;
    double old_size, now_size;
    double share;                /* of all elements, that are in the slice */
    bool beside_halves;          /* coarse: some ratio is to right sums in halves, not to the baseline */
    size_t blocks;               /* ops, those with equal inputs counted once */
};

/* Set `odd` of each op where the error of either side, its rms over the output, is more than three times
 * that of the median op (the larger side of each, and `least` where that is smaller): one such op can hide
 * what all others show. Which side is off does not matter, so to leave these ops out favours neither. */
void td_slice_mark_odd(struct td_slice_op *ops, size_t n, double least);

/* How many blocks that weigh alike the whole output of these ops is worth.
 *   ops : [n], those with equal inputs next to each other */
double td_slice_blocks(const struct td_slice_op *ops, size_t n);

/* All tests of a set, of every slice. Returns how many are written to out, [TD_SLICE_TESTS_MAX]. A slice
 * that no op has, or with fewer than min_blocks blocks, has no test. */
#define TD_SLICE_TESTS_MAX 400
size_t td_slice_tests(const struct td_slice_op *ops, size_t n, double min_blocks,
                      struct td_slice_test *out);
/* Is the candidate coarser? The ratio of rms errors over whole outputs, in the mean of its logarithm over
 * blocks.
 *   limit, floor : of the policy */
void td_slice_coarse(const struct td_slice_op *ops, size_t n, double limit, double floor,
                     struct td_slice_test *out);
/* Is it a last tile so small that an op, of an older replay, has no sums of it? */
bool td_slice_is_unknown(const struct td_slice_op *ops, size_t n, const struct td_slice *slice);
/* The estimate of one slice of some ops; NaN: they have none. */
double td_slice_estimate(const struct td_slice_op *ops, size_t n, const struct td_slice *slice,
                         enum td_slice_measure measure);

#endif
