#!/usr/bin/env python3
# vllm_launches.py FILE... > vllm_launches.txt - what each launch in files of tests/live/launches.c is, read anew from vLLM 0.26's sources
# (csrc/quantization/gptq/q_gemm.cu, marlin/kernel.h: the order of the parameters), for test_gpu_launches.c. SPDX-License-Identifier: Apache-2.0
import re, sys

OTHERS = ("shuffle_4bit", "shuffle_8bit", "make_sequential_4bit", "gptq_marlin_repack")  # of GPTQ, and no product
print("# Launches of vLLM 0.26.0 on an H200 (driver 580.159.04, CUDA 13.0), models of random weights: hidden 1024, ffn 2816, group 128; stage `launches` of")
print("# tests/live/vllm_gpu.sh. SYMBOL GRID BLOCK SHARED OFFSET+SIZE=BYTES ... = what it is (vllm_launches.py); @: the parameter that holds the address.")


def operands(*ops):
    return " ".join(f"{role}@{at}:{dtype}[{','.join(map(str, shape))}]" for role, at, dtype, *shape in sorted(ops))


def describe(symbol, p):
    number = lambda at: int.from_bytes(bytes.fromhex(p[at]), "little")
    bits = 8 if "_8bit_" in symbol else 4
    if any(o in symbol for o in OTHERS):
        return "unknown"
    if "gemm_half_q_half" in symbol or "reconstruct_exllama" in symbol:
        gemm = "gemm_half" in symbol
        m, n, k, groups, v2, perm = [number(x) for x in ((40, 44, 48, 52, 56, 64) if gemm else (44, 36, 32, 40, 44, 8))]
        family = ("gptq_exllama" if gemm else "reconstruct_exllama") + ("_8bit" if bits == 8 else "")
        ops = [("qweight", 8 if gemm else 0, "I32", k * bits // 32, n), ("qzeros", 16, "I32", groups, n * bits // 32), ("scales", 24, "F16", groups, n)]
        ops += [("perm", 64 if gemm else 8, "I32", k)] if perm else []
        ops += [("a", 0, "F16", m, k), ("c", 32, "F16", m, n)] if gemm else [("b", 48, "F16", k, n)]
        return f"{family} m={m if gemm else '-'} n={n} k={k} bits={bits} group={k // groups} order={int(perm != 0)} zero={1 - v2} {operands(*ops)}"
    ids = re.findall(r"Ll(\d+)E", symbol)
    half = {"1125899906910725": "F16", "1125899906909960": "BF16"}[ids[0]]
    weights = {"1125899907892224": "u4b8", "1125899906843648": "u4"}[ids[1]]
    groups, m, n, k, lda = [number(x) for x in (80, 84, 88, 92, 96)]
    assert lda == k
    ops = [("a", 0, half, m, k), ("qweight", 8, "I32", k // 16, n * 2), ("c", 16, half, m, n), ("scales", 48, half, groups, n)]
    ops += [("qzeros", 64, "I32", groups, n // 8)] if weights == "u4" else []
    ops += [("bias", 32, half, n)] if number(112) else []
    return f"marlin_{weights}_{half.lower()} m={m} n={n} k={k} bits=4 group={k // groups} order=0 zero=0 {operands(*ops)}"


for path in sys.argv[1:]:
    for line in sorted(open(path)):
        symbol, *rest = line.split()
        params = {int(x.split("+")[0]): x.split("=")[1] for x in rest[3:]}
        print(line.strip(), "=", describe(symbol, params))
