/* reference_sample.h - elements of a reference that something else computed, computed again in plain C.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_REFERENCE_REFERENCE_SAMPLE_H
#define TD_KERNELS_REFERENCE_REFERENCE_SAMPLE_H

#include "kernels/ops/gemm_op.h"
#include "kernels/ops/gptq_gemm_op.h"

#define TD_REFERENCE_SAMPLE_ROWS 16
#define TD_REFERENCE_SAMPLE_COLS 8
#define TD_REFERENCE_ROOM 1e-12 /* of |A||W|: what two engines may differ by */

/* Compare the elements of up to 17 rows by 9 columns with sums made one by one: a row of each of 16 equal
 * parts, chosen by seed, and the last; columns of 8 parts likewise. ref : before its bias. TD_ECORRUPT: they
 * differ, err says where and by how much. TD_ENOMEM. */
int td_reference_sample_gptq(const struct td_gptq_op *x, const struct td_op_ref *ref, uint64_t seed, struct td_error *err);
int td_reference_sample_gemm(const struct td_gemm *x, const struct td_op_ref *ref, uint64_t seed, struct td_error *err);
/* Compare whole rows, of the finished reference, with the CPU's: all of them, or so many, spread over all and
 * chosen by seed, that they take at most `most` products (one row at least). Errors as above, TD_ELIMIT. */
int td_reference_compare_gptq(const struct td_gptq_op *x, const struct td_op_ref *ref, int64_t most, uint64_t seed, struct td_error *err);
int td_reference_compare_gemm(const struct td_gemm *x, const struct td_op_ref *ref, int64_t most, uint64_t seed, struct td_error *err);

#endif
