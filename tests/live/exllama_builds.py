#!/usr/bin/env python3
"""exllama_builds.py CSRC OUT [ARCH] - builds of vLLM's 4-bit exllama kernel, one edit each, as nvcc makes them.

CSRC is the folder csrc/libtorch_stable/quantization/gptq of vLLM 0.26's source distribution. `fetch` in its place has
pip download that from its registry (38 MB), and nothing of it run. Writes OUT/NAME.fatbin for ARCH (sm_90), which
`gate --build` takes beside a recording of a vLLM with --linear-backend exllama, and OUT/builds.txt: name, then the forms of
model (vllm_gpu/builds.sh) in which it must be caught, `right`, `any` or `slow`. Only the source up to the kernel is used: what
follows needs torch. Needs nvcc. 40 s on two cores.
SPDX-License-Identifier: Apache-2.0
"""
import os
import sys
import tempfile

from kernel_builds import compile_build, edited, fetch

QUANTIZATION = "libtorch_stable/quantization/gptq"
KERNEL = "gemm_half_q_half_gptq_4bit_kernel"
FORMS = "plain fine act g32 zeros"
GROUP = "    if (k == nextgroup) {\n      group++;\n      nextgroup += groupsize;\n      b_gptq_qzeros_.item4(zeros, group, n);\n      b_gptq_scales_.item4_f(scales, group, n);"
# name: where it must be caught, and edits (text of the kernel, what stands in its place, how often it is there: once)
EDITS = {
    "itself": ("right", []),
    "column_4th": (FORMS, [("__float2half_rn(block_c[m][3])", "__float2half_rn(block_c[m][3] * 1.001f)")]),
    "all_01pct": (FORMS, [("__float2half_rn(block_c[m][", "__float2half_rn(1.001f * block_c[m][", 4)]),
    # scales of the form plain have 5 significant bits
    "scales_bf16": ("fine act g32 zeros", [("b_gptq_scales_.item4_f(scales, group, n);",
                     "b_gptq_scales_.item4_f(scales, group, n);"
                     "for (int s = 0; s < 4; s++) scales[s] = __bfloat162float(__float2bfloat16(scales[s]));", 2)]),
    "k_slice": (FORMS, [("  int end_k = min(", "  if (blockIdx.z == 2) return;\n  int end_k = min(")]),
    "lost_update": (FORMS, [("    atomicAdd(out, result01);", "    if (n % 64 == 8) *out = __hadd2(*out, result01); else atomicAdd(out, result01);")]),
    "wrong_row": (FORMS, [("c_.item_ptr(offset_m + m, n)", "c_.item_ptr(offset_m + (m_count > 1 && m == m_count - 1 ? m - 1 : m), n)")]),
    "tail": (FORMS, [("if (n >= size_n) return;", "if (n >= size_n - 128) return;")]),
    "last_column": (FORMS, [("__float2half_rn(block_c[m][3])", "__float2half_rn(block_c[m][3] * (n + 4 == size_n ? 1.01f : 1.0f))")]),
    "perm_ignored": ("act", [("if (b_q_perm)", "if (false)")]),
    # a block works on 128 rows of W: with groups of 128 it never changes the group
    "scales_late": ("g32 zeros", [(GROUP, GROUP.replace("item4_f(scales, group,", "item4_f(scales, group - 1,"))]),
    # zero points of the forms but zeros are all equal
    "zeros_late": ("zeros", [(GROUP, GROUP.replace("item4(zeros, group,", "item4(zeros, group - 1,"))]),
    "zeros_middle": ("zeros", [("b_gptq_qzeros_.item4(zeros, group, n);", "for (int s = 0; s < 4; s++) zeros[s] = 7;", 2)]),
    # no GPU has shown it yet
    "no_barrier": ("any", [("  __syncthreads();\n", "")]),
    "honest_reverse": ("right", [("blockIdx.z * BLOCK_KN_SIZE", "(gridDim.z - 1 - blockIdx.z) * BLOCK_KN_SIZE")]),
}
FLAGS = {"honest_nofma": ["-fmad=false"], "honest_o1": ["-Xptxas", "-O1"]}
# The last block of a launch waits for a share of what the launch has taken, so that nothing of its work goes another way: by the clock
# of its multiprocessor at 2 GHz, since the global timer is too coarse. `slow_0` has the clocks alone, beside which the others are
# timed; `slow_2_down` is slow where K > N, as a model's down_proj is.
for name, percent in (("slow_0", "0"), ("slow_2", "2"), ("slow_5", "5"), ("slow_10", "10"), ("slow_2_down", "(size_k > size_n ? 2 : 0)")):
    EDITS[name] = ("right" if percent == "0" else "slow", [
        ("  auto t = threadIdx.x;\n", "  auto t = threadIdx.x;\n  static unsigned long long began = ~0ull;\n  static unsigned int ended = 0;\n"
         "  unsigned long long now;\n  asm volatile(\"mov.u64 %0, %globaltimer;\" : \"=l\"(now));\n  if (t == 0) atomicMin(&began, now);\n"),
        ("    atomicAdd(out + 1, result23);\n  }\n", "    atomicAdd(out + 1, result23);\n  }\n  __syncthreads();\n"
         "  if (t == 0 && atomicAdd(&ended, 1) == gridDim.x * gridDim.y * gridDim.z - 1) {\n"
         "    asm volatile(\"mov.u64 %0, %globaltimer;\" : \"=l\"(now));\n"
         f"    const long long until = clock64() + (long long)(now - atomicExch(&began, ~0ull)) * 2 * {percent} / 100;\n"
         "    while (clock64() < until);\n    ended = 0;\n  }\n")])
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


def build(csrc, out, arch):
    head, kernel = source_of(csrc)
    instances = "".join(INSTANCE % m for m in range(1, 9)) + "}\n}\n"
    os.makedirs(out, exist_ok=True)
    path = os.path.join(out, "kernel.cu")
    for name in [*EDITS, *FLAGS]:
        with open(path, "w") as f:
            f.write(head + edited(kernel, EDITS.get(name, ("", []))[1]) + instances)
        compile_build(out, name, path, arch, ["-I", csrc, *FLAGS.get(name, [])])
    os.remove(path)
    with open(os.path.join(out, "builds.txt"), "w") as f:
        for name in [*EDITS, *FLAGS]:
            f.write(f"{name} {EDITS[name][0] if name in EDITS else 'right'}\n")


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        build(os.path.join(fetch(folder), QUANTIZATION) if sys.argv[1] == "fetch" else sys.argv[1], sys.argv[2], (sys.argv[3:] or ["sm_90"])[0])


main()
