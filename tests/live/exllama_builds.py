#!/usr/bin/env python3
"""exllama_builds.py CSRC OUT [ARCH] - builds of vLLM's 4-bit exllama kernel, one edit each, as nvcc makes them.

CSRC is the folder csrc/libtorch_stable/quantization/gptq of vLLM 0.26's source distribution (PyPI,
`pip download --no-binary vllm --no-deps vllm==0.26.0`). Writes OUT/NAME.fatbin for ARCH (sm_90), which
`gate --build` takes beside a recording of a vLLM with --linear-backend exllama. Only the source up
to the kernel is used: what follows needs torch. Names that begin with honest_ are right builds; `itself`
has no edit. Needs nvcc.
SPDX-License-Identifier: Apache-2.0
"""
import os
import subprocess
import sys

KERNEL = "gemm_half_q_half_gptq_4bit_kernel"
# name: pairs of (text of the kernel, what stands in its place)
EDITS = {
    "itself": [],
    "column_4th": [("__float2half_rn(block_c[m][3])", "__float2half_rn(block_c[m][3] * 1.001f)")],
    "all_01pct": [("__float2half_rn(block_c[m][", "__float2half_rn(1.001f * block_c[m][")],
    "scales_bf16": [("b_gptq_scales_.item4_f(scales, group, n);",
                     "b_gptq_scales_.item4_f(scales, group, n);"
                     "for (int s = 0; s < 4; s++) scales[s] = __bfloat162float(__float2bfloat16(scales[s]));")],
    "k_slice": [("  int end_k = min(", "  if (blockIdx.z == 2) return;\n  int end_k = min(")],
    "lost_update": [("    atomicAdd(out, result01);", "    if (n % 64 == 8) *out = __hadd2(*out, result01); else atomicAdd(out, result01);")],
    "wrong_row": [("c_.item_ptr(offset_m + m, n)", "c_.item_ptr(offset_m + (m_count > 1 && m == m_count - 1 ? m - 1 : m), n)")],
    "tail": [("if (n >= size_n) return;", "if (n >= size_n - 128) return;")],
    "no_barrier": [("  __syncthreads();\n", "")],
}
FLAGS = {"honest_nofma": ["-fmad=false"], "honest_o1": ["-Xptxas", "-O1"]}
INSTANCE = ("template __global__ void " + KERNEL + "<true, %d>(const half*, const uint32_t*, const uint32_t*, "
            "const half*, half*, int, int, int, int, bool, const int*);\n")


def source_of(csrc):
    """The text before the kernel, and the kernel."""
    with open(os.path.join(csrc, "q_gemm.cu")) as f:
        text = f.read()
    begin = text.index("__global__ void " + KERNEL)
    end = text.index("template <bool first_block, int m_count>", begin)
    head = "\n".join(line for line in text[:begin].split("\n") if "torch" not in line)
    return "#include <cuda_bf16.h>\n" + head, text[begin:end]


def edited(kernel, pairs):
    for old, new in pairs:
        if old not in kernel:
            sys.exit(f"exllama_builds: this source is not that of vLLM 0.26: no {old!r}")
        kernel = kernel.replace(old, new)
    return kernel


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    csrc, out, arch = sys.argv[1], sys.argv[2], (sys.argv[3:] or ["sm_90"])[0]
    head, kernel = source_of(csrc)
    instances = "".join(INSTANCE % m for m in range(1, 9)) + "}\n}\n"
    os.makedirs(out, exist_ok=True)
    for name in [*EDITS, *FLAGS]:
        path = os.path.join(out, name + ".cu")
        with open(path, "w") as f:
            f.write(head + edited(kernel, EDITS.get(name, [])) + instances)
        subprocess.run(["nvcc", "-std=c++17", "-arch=" + arch, "-fatbin", "-I", csrc, *FLAGS.get(name, []), path,
                        "-o", os.path.join(out, name + ".fatbin")], check=True)
        os.remove(path)
        print(name, flush=True)


main()
