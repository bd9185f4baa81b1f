/* along_k.h - which part of K do the errors of a product come from?
 * SPDX-License-Identifier: Apache-2.0
 *
 * An op whose errors are suspicious has them regressed on the partial sums of A W over parts of K, by least
 * squares, each element weighed by what correct rounding allows there. A coefficient is the share by which that
 * part is too large: -1 where it is missing, 0.001 where its scale is 0.1 % off. Two divisions of K are tried: into
 * at most TD_ALONG_K_MOST pieces of a power of two, from 32 on, and by k modulo 128 into 16 classes of 8, since
 * kernels work in such tiles. The standard errors are those of clusters, one for each column (CR1 of statsmodels),
 * for a fault of one column is the same in all of its rows. What stands out among them differ decides, over ops. */
#ifndef TD_REPLAYER_ALONG_K_H
#define TD_REPLAYER_ALONG_K_H

#include <cjson/cJSON.h>

#include "kernels/ops/op.h"
#include "replayer/judge.h"

#define TD_ALONG_K_MOST 64    /* pieces */
#define TD_ALONG_K_CLASSES 16 /* of k modulo TD_ALONG_K_PERIOD */
#define TD_ALONG_K_PERIOD 128
#define TD_ALONG_K_OPS 8      /* of each group that are asked, at most */
#define TD_ALONG_K_COARSE 1.25 /* an op is asked whose rms error is so many times the baseline's */
#define TD_ALONG_K_PRODUCTS ((int64_t)1 << 28) /* of an op that is asked, at most */
#define TD_ALONG_K_NUMBERS ((int64_t)1 << 25)  /* in memory for one op, at most: 256 MiB */

/* n coefficients with their standard errors; n 0: not known. dof: columns less coefficients; explained: the share of
 * the variance of y, adjusted for the coefficients (1 - mean square of residuals with n - p, over that of y with n). */
struct td_along_k_fit { int n; double est[TD_ALONG_K_MOST], error[TD_ALONG_K_MOST], dof, explained; };
struct td_along_k {
    int64_t step;                /* of the pieces; 0: the op was not asked */
    struct td_along_k_fit pieces, classes;
};

/* Fit y on p columns of x without a constant.
 *   x : [p][rows * cols]; y : [rows * cols]; cluster of an element: its column
 * out->n is 0 where there are too few elements, or x does not determine the coefficients. TD_ENOMEM. */
int td_along_k_regress(const double *x, const double *y, int64_t rows, int64_t cols, int p, struct td_along_k_fit *out,
                       struct td_error *err);

/* Ask an op. It is left alone (step 0) where it is too large, of a kind without partial sums, or not finite.
 *   ref, out, image, lim : as td_judge_output()
 * TD_ENOMEM, also where --max-memory leaves no room. */
int td_along_k_find(const struct td_op_call *op, const struct td_op_ref *ref, const void *image, const struct td_judge_limits *lim,
                    struct td_along_k *found, struct td_error *err);

/* {"step":32,"dof":236,"pieces":[[est,error],…],"classes":[…]} (docs/format.md). NULL: out of memory. */
cJSON *td_along_k_json(const struct td_along_k *found);

#endif
