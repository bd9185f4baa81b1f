/* op_along_k.h - the errors of one op by parts of K, as the replayer found them (docs/format.md, along_k).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_OP_ALONG_K_H
#define TD_DIFFER_OP_ALONG_K_H

#include "common/json.h"

#define TD_K_PARTS_MOST 64

/* What the replayer found of one op: [0] of pieces of `step`, [1] of classes of 8 of k modulo 128. */
struct td_op_along_k {
    int64_t step;
    double dof;
    struct { int n; double explained; double est[TD_K_PARTS_MOST], error[TD_K_PARTS_MOST]; } of[2];
};

/* Read it. NULL: there is none, or what stands there is none; or no memory. The caller frees it. */
struct td_op_along_k *td_op_along_k_read(const cJSON *along_k);

#endif
