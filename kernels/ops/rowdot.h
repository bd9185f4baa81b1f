/* rowdot.h - one row of weights against rows of activations, in double: the inner loop of the references.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_OPS_ROWDOT_H
#define TD_KERNELS_OPS_ROWDOT_H

#include <stdint.h>

struct td_rowdot {
    int64_t k, m;
    const double *w0, *w1;  /* [k]    the row of weights of R0 and of R1; may be the same */
    const double *a0, *a1;  /* [m, k] dense; may be the same */
    double *r0, *r1, *mag;  /* result of row i at [i * ld]: w0 . a0, w1 . a1, |w1| . |a1|; r1 NULL: it equals r0 */
    int64_t ld;
};

/* Set r0, r1 and mag. Sums are double, in eight parts, bit for bit the same on every machine; NaN and
 * Inf as IEEE arithmetic gives them. */
void td_rowdot(const struct td_rowdot *x);

#endif
