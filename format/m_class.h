/* m_class.h - classes of M, the rows of an activation; replay samples and differ reports by them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The bounds are where GPTQ kernels are known to change their path: one row (decode of one sequence), 8 (rows of a block of
 * vLLM's gptq_gemm), 24 and 50 (MAX_Q_GEMM_ROWS_8BIT, MAX_Q_GEMM_ROWS of its q_gemm.cu), 512 (a prefill chunk). */
#ifndef TD_FORMAT_M_CLASS_H
#define TD_FORMAT_M_CLASS_H

#include <stdint.h>

#define TD_M_CLASSES 6
int td_m_class(int64_t m);          /* 0 .. TD_M_CLASSES - 1 */
const char *td_m_class_name(int c); /* "M=1", "M=2-8", "M=9-24", "M=25-50", "M=51-512", "M>512" */

#endif
