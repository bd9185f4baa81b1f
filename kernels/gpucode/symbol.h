/* symbol.h - a kernel's symbol without the parts that change from build to build.
 * SPDX-License-Identifier: Apache-2.0
 *
 * nvcc puts a hash of the file's path and content, and the file's name, into the symbols of what is local
 * to a file, so that moving or editing the file renames its kernels. Seen with nvcc 13.0:
 *     anonymous namespace       _ZN39_GLOBAL__N__9254f6a6_7_anon_cu_f30b8e291kILi3EEEvPf
 *                            -> _ZN12_GLOBAL__N_11kILi3EEEvPf (as gcc and clang spell it)
 *     static, with -rdc=true    __nv_static_24__6e5f405b_6_big_cu_large__Z2stPf
 *                            -> _Z2stPf */
#ifndef TD_KERNELS_GPUCODE_SYMBOL_H
#define TD_KERNELS_GPUCODE_SYMBOL_H

#include <stdbool.h>

#include "common/buf.h"

/* Does the symbol hold such a part? */
bool td_gpu_symbol_is_local(const char *symbol);
/* Append the symbol without such parts to out, a local buffer with a maximum. */
int td_gpu_symbol_normal(const char *symbol, struct td_buf *out);
/* Are the symbols equal, or equal without such parts? */
bool td_gpu_symbol_same(const char *a, const char *b);

#endif
