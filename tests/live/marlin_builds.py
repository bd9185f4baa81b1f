#!/usr/bin/env python3
"""marlin_builds.py CSRC OUT [ARCH [GROUPS...]] - builds of vLLM's Marlin kernel, one edit each, as nvcc makes them.

CSRC is the folder csrc of vLLM 0.26's source distribution. `fetch` in its place has pip download that from its registry (38 MB),
and nothing of it run. Writes OUT/GROUPS/NAME.fatbin for ARCH (sm_90), which `gate --build` takes beside a recording of a vLLM
with --linear-backend marlin: the instances that vLLM launches for 4 bits and float16 on a GPU of 132 multiprocessors, for the
sizes of random_gptq.py (tests/unit/data/vllm_launches.txt). GROUPS: g128, g32 (groups of so many rows),
awq (zero points, groups of 128); all, where none is named. And OUT/GROUPS/builds.txt: name, then `caught`, `right`, `any` (what
it gives is shown, and nothing is expected) or `slow`. Needs nvcc. Five minutes of one core for each of GROUPS.
SPDX-License-Identifier: Apache-2.0
"""
import os
import sys
import tempfile

from kernel_builds import compile_build, edited, fetch

MARLIN = "libtorch_stable/quantization/marlin"
F16, U4B8, U4 = 1125899906910725, 1125899907892224, 1125899906843648
# name: the type of the weights, and how many rows of 16 are a group. Act-order has no instances of its own where all of K is there:
# vLLM permutes the columns of A, and launches those of its groups (marlin.cu, is_k_full).
GROUPS = {"g128": (U4B8, 8), "awq": (U4, 8), "g32": (U4B8, 2)}
ALL = "g128 awq g32"

# Instances: threads, blocks of 16 rows, of 16 columns, of 16 of K, and whether it is for 8 rows at most.
LAUNCHED = ((128, 1, 4, 8, 0), (128, 1, 4, 8, 1), (128, 2, 4, 8, 0), (128, 3, 4, 8, 0), (128, 4, 4, 8, 0),
            (256, 1, 8, 8, 0), (256, 1, 8, 8, 1), (256, 4, 16, 4, 0))
# Where the recorded instance is missing, provider cuda launches what vLLM would choose among these.
OTHERS = {"honest_wide": ((256, 1, 8, 8, 0), (256, 1, 8, 8, 1), *((256, m, 16, 4, 0) for m in (2, 3, 4))),
          "honest_shallow": ((128, 1, 8, 4, 1), *((128, m, 8, 4, 0) for m in (1, 2, 3, 4)))}

# What becomes of a sum before it is rounded: c0 and c1 are two rows of one column (instances for 8 rows), or two columns.
WRITE = "auto write = [&](int idx, float c0, float c1, FragS& s, FragS& b_bias) {\n"
COLUMN = WRITE + "      const int column = m_block_size_8 ? idx % (8 * c_sh_stride) : idx % (4 * c_sh_stride) * 2;\n"
STORE = "        ((c_scalar_t2*)sh_red)[idx] = res;"
SCALE = "reinterpret_cast<scalar_t*>(&frag_s%s)[%s]"
BF16 = ("template <vllm::ScalarTypeId type_id>\n__device__ inline void scale(",
        "template <typename T>\n__device__ inline T through_bf16(T x) { return T(__bfloat162float(__float2bfloat16(float(x)))); }\n"
        "template <vllm::ScalarTypeId type_id>\n__device__ inline void scale(")


def columns(which, factor):
    """Sums of the columns of which a condition on `i`, the column in the tile, holds, times a factor."""
    return [(WRITE, COLUMN + "      auto wrong = [&](int i) { return %s; };\n      if (wrong(column)) c0 *= %s;\n"
             "      if (wrong(column + !m_block_size_8)) c1 *= %s;\n" % (which, factor, factor))]


def group_before(what, end):
    """A block that begins within K reads a scale or zero point (what: s, zp) of the group before its own."""
    group = f"{what}_gl_stride * ((thread_k_blocks * slice_row) / group_blocks"
    return [(f"{what}_gl_rd ={space}{group}{end}", f"{what}_gl_rd ={space}{group} - (slice_row > 0){end}") for space in (" ", "\n" + " " * 16)]


# name: what must come of it, for which GROUPS, and edits of marlin_template.h
EDITS = {
    "itself": ("right", ALL, []),
    "column_4th": ("caught", ALL, columns("i % 4 == 3", "1.001f")),
    "column_16th": ("caught", ALL, columns("i % 16 == 5", "1.001f")),
    "one_unit": ("caught", "g128", columns("i % 16 == 5", "1.000488f")),
    "half_unit": ("caught", "g128", columns("i % 16 == 5", "1.000244f")),
    "last_column": ("caught", "g128", columns("slice_col * 16 * thread_n_blocks + i == prob_n - 1", "1.01f")),
    "all_01pct": ("caught", "g128 awq", columns("true", "1.001f")),
    "scales_bf16": ("caught", ALL, [BF16, (SCALE % ("", "i") + ");", "through_bf16(" + SCALE % ("", "i") + "));"),
                                    *((SCALE % (f"_{i}", "i"), "through_bf16(" + SCALE % (f"_{i}", "i") + ")") for i in (1, 2, 3, 4))]),
    # the last tile of K, where a block has an odd number of tiles
    "k_slice": ("caught", ALL, [("slice_iters = k_tiles - slice_row;\n", "slice_iters = k_tiles - slice_row;\n"
                                 "    if (slice_row + slice_iters == k_tiles && slice_iters > 1 && slice_iters % 2) slice_iters--;\n")]),
    # what two blocks have added is lost when the third adds its own: for two columns in 64
    "lost_update": ("caught", ALL, [("          frag_c_ptr[k * 4 + f] += sh_c_ptr[f];",
                                     "          if (slice_idx != 2 || threadIdx.x % 32 != 8) frag_c_ptr[k * 4 + f] += sh_c_ptr[f];")]),
    "no_wait": ("caught", "g128", [("    while (state != count);", "    while (false);")]),
    # no GPU has run it yet
    "no_barrier": ("any", "g128", [("    cp_async_wait<stages - 2>();\n    __syncthreads();\n", "    cp_async_wait<stages - 2>();\n")]),
    "wrong_row": ("caught", "g128 awq", [("C[c_gl_wr] = sh_red[c_sh_rd];", "C[c_gl_wr] = sh_red[c_sh_rd - (prob_m % 16 > 1 && "
                                          "c_gl_wr / c_gl_stride == prob_m - 1 ? c_sh_stride : 0)];")]),
    "rows_of_8": ("caught", "g128 awq", [("int c_gl_wr_end = c_gl_stride * prob_m;", "int c_gl_wr_end = c_gl_stride * (prob_m > 8 ? prob_m / 8 * 8 : prob_m);")]),
    "tail": ("caught", ALL, [("if (c_gl_wr < c_gl_wr_end) {", "if (c_gl_wr < c_gl_wr_end && slice_col != n_tiles - 1) {")]),
    "pair_swapped": ("caught", ALL, [(WRITE, COLUMN + "      if (m_block_size_8 && column % 16 / 2 == 2) idx ^= 1;\n"),
                                     (STORE, "        if (column % 16 == 4) res = Cdtype::nums2num2(res.y, res.x);\n" + STORE)]),
    # one more for all weights of a column in 64
    "zero_7": ("caught", ALL, [("      dequant_data(b_quant_1, reinterpret_cast<scalar_32bit_t*>(&frag_b1));\n",
                                "      dequant_data(b_quant_1, reinterpret_cast<scalar_32bit_t*>(&frag_b1));\n"
                                "      if (j == 1 && threadIdx.x % 32 / 4 == 3)\n        for (int h = 0; h < 2; h++)\n"
                                "          frag_b0[h] = __hadd2(frag_b0[h], Adtype::num2num2(Adtype::float2num(1.0f)));\n")]),
    "scales_late": ("caught", ALL, [*group_before("s", ") +"), *group_before("s", " +"), (
        "sh_s[(same_group_id[pipe] - sh_first_group_id) * s_sh_stride +",
        "sh_s[(same_group_id[pipe] - sh_first_group_id - (same_group_id[pipe] > sh_first_group_id)) * s_sh_stride +")]),
    # the second half of a group: of 128 rows it reads the scales of the group before, of 32 those of the next
    "scales_half": ("caught", "g128 awq g32", [
        ("int4* sh_s_stage = sh_s + s_sh_stage * (g * (pipe / g));",
         "const bool late = full_pipe >= g && threadIdx.x / 32 / tb_n_warps >= threads / 64 / tb_n_warps;\n"
         "int4* sh_s_stage = sh_s + s_sh_stage * ((pipe + (late ? stages - g : 0)) % stages);"),
        ("} else if (group_blocks >= b_sh_wr_iters) {",
         "} else if (!is_8bit_scale) {\n"
         "          const int next = (b_sh_wr_iters * (threadIdx.x / 32 / tb_n_warps) + k % b_sh_wr_iters) / group_blocks2 + 1;\n"
         "          reinterpret_cast<int4*>(&frag_s[1])[0] =\n"
         "              sh_s[s_sh_stage * pipe + s_sh_rd + (next < s_tb_groups ? next : s_tb_groups - 1) * s_sh_stride];\n"
         "        } else if (group_blocks >= b_sh_wr_iters) {")]),
    "zeros_late": ("caught", "awq", group_before("zp", ") +")),
    "zeros_middle": ("caught", "awq", [("zp_quant_1 = zp_quant_0 >> 8;", "zp_quant_0 = 0x88888888, zp_quant_1 = zp_quant_0 >> 8;")]),
    "halves_added": ("caught", "g128 awq", [("constexpr bool use_fp16_accum = false;", "constexpr bool use_fp16_accum = true;")]),
    # vLLM's own other way to add what the blocks have: in C, rounded to float16 each time (use_fp32_reduce off). Its errors are
    # 20 to 40 times those of the recorded way, so it is caught, unless it was recorded as well
    "halves_reduced": ("caught", "g128 awq", [("        if (use_fp32_reduce) {", "        if (false) {")]),
    # blocks add from the other end of K
    "honest_reverse": ("right", ALL, [("    if (first_init && use_atomic_add && slice_count > 1 && slice_idx == 0) {",
                                       "    slice_idx = slice_count - 1 - slice_idx;\n    if (first_init && use_atomic_add && slice_count > 1 && slice_idx == 0) {")]),
    "honest_wide": ("right", ALL, []),
    "honest_shallow": ("right", ALL, []),
    "honest_o1": ("right", "g128", []),
}
FLAGS = {"honest_o1": ["-Xptxas", "-O1"]}
for percent in (5, 10): # each thread waits for a share of what it has taken
    EDITS[f"slow_{percent}"] = ("slow", "g128", [
        ("  const int4* A = A0;\n", "  const long long began = clock64();\n  const int4* A = A0;\n"),
        ("        start_pipes();\n      }\n    }\n  }\n", "        start_pipes();\n      }\n    }\n  }\n"
         f"  const long long until = clock64() + (clock64() - began) * {percent} / 100;\n  while (clock64() < until);\n")])
# Instances for 8 rows at most leave their locks set. Those for more must not: an op of several launches, which share the locks, would
# hang until it is given up (seen on an H200). No GPU has run this one yet.
EDITS["lock_kept"] = ("any", "g128", [("barrier_release(&locks[locks_off], last);", "barrier_release(&locks[locks_off], last && !m_block_size_8);")])

# All that the source takes of torch
STUB = "torch/headeronly/util/Exception.h", "#define STD_TORCH_CHECK(...) ((void)0)\n"
SOURCE = '#include "kernel.h"\n#include "marlin_template.h"\nnamespace marlin {\n%s}\n'
INSTANCE = "template __global__ void Marlin<{f}L, {w}L, {f}L, {f}L, {0}, {1}, {2}, {3}, {4}, 4, {groups}, false>(MARLIN_KERNEL_PARAMS);\n"


def write(*path_and_text):
    *path, text = path_and_text
    os.makedirs(os.path.join(*path[:-1]), exist_ok=True)
    with open(os.path.join(*path), "w") as f:
        f.write(text)


def build(csrc, folder, out, arch, groups):
    weights, size = GROUPS[groups]
    names = [name for name in EDITS if groups in EDITS[name][1].split()]
    with open(os.path.join(csrc, MARLIN, "marlin_template.h")) as f:
        template = f.read()
    write(folder, *STUB[0].split("/"), STUB[1])
    os.makedirs(out, exist_ok=True)
    for name in names:
        instances = "".join(INSTANCE.format(*i, f=F16, w=weights, groups=size) for i in OTHERS.get(name, LAUNCHED))
        write(folder, "marlin_template.h", edited(template, EDITS[name][2]))
        write(folder, "kernel.cu", SOURCE % instances)
        compile_build(out, name, os.path.join(folder, "kernel.cu"), arch,
                      ["--expt-relaxed-constexpr", "-w", "-I", folder, "-I", csrc, "-I", os.path.join(csrc, MARLIN), *FLAGS.get(name, [])])
    write(out, "builds.txt", "".join(f"{name} {EDITS[name][0]}\n" for name in names))


def main():
    if len(sys.argv) < 3 or not set(sys.argv[4:]) <= set(GROUPS):
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        csrc = fetch(folder) if sys.argv[1] == "fetch" else sys.argv[1]
        for groups in sys.argv[4:] or GROUPS:
            build(csrc, os.path.join(folder, "edited"), os.path.join(sys.argv[2], groups), (sys.argv[3:] or ["sm_90"])[0], groups)


main()
