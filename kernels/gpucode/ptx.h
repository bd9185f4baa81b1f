/* ptx.h - the kernels that a PTX text declares, with their parameters.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: the PTX ISA, "Kernel and Function Directives" and "State Spaces": parameters lie at their
 * natural alignment, or that of .align. A cubin aligns its parameters in the constant bank, where the
 * block begins at 0x160 (sm_80), 0x210 (sm_90) or 0x380 (sm_100): for alignments over 16 the offsets
 * given here are those of a block that begins at 0, and the compiled kernel's may differ. */
#ifndef TD_KERNELS_GPUCODE_PTX_H
#define TD_KERNELS_GPUCODE_PTX_H

#include "kernels/gpucode/kernel_list.h"

bool td_ptx_is(const void *data, size_t n);  /* does it begin with comments and .version? */
/* The target that a text names: 90 and 'a' for ".target sm_90a". False: it names none. */
bool td_ptx_target(const char *text, size_t n, int *sm, char *variant);
/* Append the kernels of n bytes of text, which may end with a NUL. A kernel whose parameters are not
 * understood gets n_params -1. TD_ELIMIT, TD_ENOMEM. */
int td_ptx_kernels(const char *text, size_t n, struct td_gpu_kernel_list *out, struct td_error *err);

#endif
