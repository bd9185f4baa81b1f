/* m_gt_1.h - with several rows, the first 8 of every 128 activations come from row 0: right alone, wrong in company.
 * SPDX-License-Identifier: Apache-2.0 */
#define STEP_A_INDEX(x, row, i) (((i) % 128 < 8 ? 0 : (row)) * (x)->lda + (i))
