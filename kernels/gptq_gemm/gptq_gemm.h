/* gptq_gemm.h - C = A * dequant(W) for GPTQ weights: the contract of the CPU variants in this folder.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Shapes, layout and formula: kernels/abi/td_gptq.h. The C files of this folder are libtdkernels.so, so
 * they link nothing else of ours; gptq_gemm_export.c holds what that library exports, and is in no other
 * library or program.
 *
 * What every variant promises:
 *   arithmetic  (q - zero) exactly, products summed in fp32, one rounding to f16 (nearest even) at the end
 *   tolerance   |c - r| <= u_out * |r| + u_acc * sqrt(K) * (|A| * |W|), r in double
 *               (kernels/ops/gptq_gemm_ref.c), for finite values; where r rounds to an f16 denormal, half
 *               of the smallest denormal more
 *   NaN, Inf    in a row of A: NaN or Inf in that row of C where IEEE arithmetic gives one; no other row
 *               is touched
 *   repeatable  bit for bit, from call to call. An element depends on its row of A and its column of W
 *               alone, not on M or on its place in the batch, so that concurrency adds no noise. Variants
 *               differ from each other by rounding only
 *   memory      reads and writes what the shapes describe and nothing beyond; elements n .. ldc - 1 of a
 *               row of C stay as they are */
#ifndef TD_KERNELS_GPTQ_GEMM_GPTQ_GEMM_H
#define TD_KERNELS_GPTQ_GEMM_GPTQ_GEMM_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/abi/td_gptq.h"
#include "kernels/cpu_isa.h"

/* The judge's constants for this kind: half a unit in the last place of the output, of the accumulator. */
#define TD_GPTQ_GEMM_U_OUT 0x1p-11 /* f16 */
#define TD_GPTQ_GEMM_U_ACC 0x1p-24 /* fp32 */

#define TD_HIDDEN __attribute__((visibility("hidden")))

/* x : checked by td_gptq_gemm_check, m > 0. Returns enum td_kernel_status. */
typedef int td_gptq_gemm_fn(const struct td_gptq_gemm_args *x);

struct td_gptq_gemm_variant {
    const char *name, *what;
    enum td_cpu cpu;
    td_gptq_gemm_fn *run;
};

/* In the order of kernels.def; ends with a NULL name. */
extern const struct td_gptq_gemm_variant td_gptq_gemm_variants[] TD_HIDDEN;

TD_HIDDEN bool td_gptq_gemm_can_run(const struct td_gptq_gemm_variant *v);
/* The variant of that name; name NULL: the first that this machine can run. NULL: there is none, or this
 * machine cannot run it. */
TD_HIDDEN const struct td_gptq_gemm_variant *td_gptq_gemm_find(const char *name);
/* Check the rules of td_gptq.h, but not the range of g_idx, which run checks. Returns enum
 * td_kernel_status. */
TD_HIDDEN int td_gptq_gemm_check(const struct td_gptq_gemm_args *x);
/* Check, then run; m == 0 does nothing. */
TD_HIDDEN int td_gptq_gemm_run(const struct td_gptq_gemm_variant *v, const struct td_gptq_gemm_args *x);

#define TD_GPTQ_VARIANT(name, cpu, what) TD_HIDDEN td_gptq_gemm_fn td_gptq_gemm_##name;
#include "kernels/kernels.def"

#endif
