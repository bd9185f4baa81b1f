/* reference_sample.h - elements of a reference that something else computed, computed again in plain C.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_REFERENCE_REFERENCE_SAMPLE_H
#define TD_KERNELS_REFERENCE_REFERENCE_SAMPLE_H

#include "kernels/ops/gemm_op.h"
#include "kernels/ops/gptq_gemm_op.h"

#define TD_REFERENCE_SAMPLE_ROWS 16
#define TD_REFERENCE_SAMPLE_COLS 8
#define TD_REFERENCE_ROOM 1e-12 /* of |A||W|: what two engines may differ by */

/* Compare up to 16 rows by 8 columns, chosen by seed, the last row and column among them, with sums made
 * one by one. ref : before its bias. TD_ECORRUPT: they differ, err says where and by how much. TD_ENOMEM. */
int td_reference_sample_gptq(const struct td_gptq_op *x, const struct td_op_ref *ref, uint64_t seed, struct td_error *err);
int td_reference_sample_gemm(const struct td_gemm *x, const struct td_op_ref *ref, uint64_t seed, struct td_error *err);
/* Compare all of two references. */
int td_reference_compare(const struct td_op_ref *ref, const struct td_op_ref *again, struct td_error *err);

#endif
