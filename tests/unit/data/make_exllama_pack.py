#!/usr/bin/env python3
# make_exllama_pack.py - weights as vLLM's exllama kernels read them: tests/unit/model/exllama_pack_data.h
#
# usage: make_exllama_pack.py > ../exllama_pack_data.h     (numpy)
#
# vLLM has no Python code for this layout, so it is made here from the reading side: for each element, which bits of which word do
# gemm_half_q_half_gptq_4bit_kernel and _8bit_kernel take for it? In dequant_4bit_8_gptq (csrc/quantization/gptq/qdq_4.cuh) dq[0] = (word &
# 0x000f000f), dq[1] = (word & 0x00f000f0) / 16, dq[2] and dq[3] the same of word >> 8; the low half of dq[i] meets element 2 i of A, the high half
# element 2 i + 1 (dot22_8_f), and block_a holds A's column perm[k] (q_gemm.cu). In dequant_8bit_8 (qdq_8.cuh) element i of a word is byte i.
import numpy as np

K, N, GROUP = 96, 24, 32
rng = np.random.default_rng(11)


def checkpoint(q, bits):
    """GPTQ's qweight: 32 / bits rows to a word, the first lowest."""
    words = np.zeros((K * bits // 32, N), np.uint32)
    for k in range(K):
        words[k * bits // 32] |= q[k].astype(np.uint32) << np.uint32(k * bits % 32)
    return words


MASKS = {4: [(0x000F000F, 0), (0x00F000F0, 4), (0x0F000F00, 8), (0xF000F000, 12)]}  # what dq[0..3] see of the word, and where their low half begins


def exllama(q, bits, perm):
    """A word such that the kernel, masking it, finds row perm[k] as its k-th."""
    words = np.zeros((K * bits // 32, N), np.uint32)
    for k in range(K):
        word, j = divmod(k, 32 // bits)
        if bits == 8:
            shift = 8 * j
        else:
            mask, low = MASKS[4][j // 2]
            shift = low + 16 * (j % 2)
            assert mask >> shift & 15 == 15
        words[word] |= q[perm[k]].astype(np.uint32) << np.uint32(shift)
    return words


def array(ctype, name, x):
    x = x.ravel()
    suffix = "u" if ctype[0] == "u" else ""
    print(f"static const {ctype} {name}[{len(x)}] = {{")
    for i in range(0, len(x), 12):
        print("    " + ", ".join(f"{int(v)}{suffix}" for v in x[i : i + 12]) + ",")
    print("};")


g_idx = rng.permutation(np.arange(K) // GROUP)
perm = np.argsort(g_idx, kind="stable")
print("/* exllama_pack_data.h - made by tests/unit/data/make_exllama_pack.py: one layer in 4 and 8 bits, with and without act-order.")
print(" * SPDX-License-Identifier: Apache-2.0 */")
print(f"enum {{ EXL_K = {K}, EXL_N = {N}, EXL_GROUP = {GROUP} }};")
array("int32_t", "exl_g_idx", g_idx)
array("int32_t", "exl_perm", perm)
for bits in (4, 8):
    q = rng.integers(0, 1 << bits, (K, N))
    array("uint32_t", f"exl_checkpoint_{bits}bit", checkpoint(q, bits))
    array("uint32_t", f"exl_plain_{bits}bit", exllama(q, bits, np.arange(K)))
    array("uint32_t", f"exl_act_order_{bits}bit", exllama(q, bits, perm))
