/* fake_marlin.h - the symbols of vLLM's Marlin kernels, for the fake driver (lib_fake_marlin.c
 * computes them) and for fixtures that look as if Marlin had run (make_ops.c).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Symbols: the template in vLLM 0.26's csrc/quantization/marlin/kernel.h, as nvcc mangles its
 * instances (tests/unit/data/marlin_like.cu). Parameters, as CUPTI showed them on an H200
 * (offset+size):
 *   0 .. 72  ten pointers: a b c c_tmp bias a_s s g_s zp g_idx
 *   80+4 groups   84+4 m   88+4 n   92+4 k   96+4 lda   104+8 locks
 *   112+1 has_bias   113+1 use_atomic_add   114+1 use_fp32_reduce   116+4 max_shared_mem */
#ifndef TD_TESTS_HELPERS_FAKE_MARLIN_H
#define TD_TESTS_HELPERS_FAKE_MARLIN_H

#define FAKE_MARLIN_F16 "Ll1125899906910725E"
#define FAKE_MARLIN_BF16 "Ll1125899906909960E"
#define FAKE_MARLIN_U4 "Ll1125899906843648E"
#define FAKE_MARLIN_U4B8 "Ll1125899907892224E"
#define FAKE_MARLIN_U8B128 "Ll1125899923621888E"
#define FAKE_MARLIN_TAIL "EEEvPK4int4S3_PS1_S4_S3_PKfS3_S6_S3_PKiiiiiiPibbbi"
/* m, n, k: blocks of 16; eight: m_block_size_8; groups: group_blocks as the compiler spells it, "8"
 * or "n1" for -1 */
#define FAKE_MARLIN(a, b, threads, m, n, k, eight, groups) \
    "_ZN6marlin6MarlinI" a b a a "Li" #threads "ELi" #m "ELi" #n "ELi" #k "ELb" #eight "ELi4ELi" groups "ELb0" FAKE_MARLIN_TAIL

/* The instances in marlin_like.fatbin:
 * X(type of a, type of b, threads, m, n, k, m_block_size_8, group_blocks) */
#define FAKE_MARLIN_INSTANCES(X) \
    X(F16, U4B8, 128, 1, 4, 8, 1, 4) X(F16, U4B8, 128, 1, 4, 8, 0, 4) X(F16, U4B8, 128, 4, 4, 8, 0, 4) \
    X(F16, U4B8, 128, 1, 4, 8, 1, 8) X(F16, U4B8, 128, 1, 4, 8, 0, 8) X(F16, U4B8, 128, 4, 4, 8, 0, 8) \
    X(F16, U4B8, 256, 1, 8, 8, 1, 8) X(F16, U4B8, 256, 4, 16, 4, 0, 8) X(F16, U4B8, 128, 1, 4, 8, 1, n1) X(F16, U4B8, 128, 1, 4, 8, 1, 0) \
    X(F16, U8B128, 128, 1, 4, 8, 1, 2) X(F16, U8B128, 128, 1, 4, 8, 0, 2) X(F16, U8B128, 128, 4, 4, 8, 0, 2) \
    X(BF16, U4B8, 128, 1, 4, 8, 1, 8) X(F16, U4, 128, 1, 4, 8, 1, 8)

#endif
