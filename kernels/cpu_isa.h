/* cpu_isa.h - the instruction sets that a line of kernels.def may ask for, and whether this machine has one.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A header alone, so that libtdkernels.so needs nothing else of ours for it. A new instruction set is
 * a name here, its test below, and its compiler flags by file name in the Makefile (ISA). */
#ifndef TD_KERNELS_CPU_ISA_H
#define TD_KERNELS_CPU_ISA_H

#include <stdbool.h>

enum td_cpu { TD_CPU_ANY, TD_CPU_AVX2, TD_CPU_AVX512 };

/* Can this machine run code compiled for that instruction set? */
static inline bool td_cpu_can_run(enum td_cpu cpu)
{
    switch (cpu) {
    case TD_CPU_ANY:
        return true;
    case TD_CPU_AVX2: /* and F16C, which every machine with AVX2 has */
#if defined(__x86_64__) || defined(__i386__)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
        return false;
#endif
    case TD_CPU_AVX512: /* its foundation */
#if defined(__x86_64__) || defined(__i386__)
        return __builtin_cpu_supports("avx512f") && td_cpu_can_run(TD_CPU_AVX2);
#else
        return false;
#endif
    }
    return false;
}

#endif
