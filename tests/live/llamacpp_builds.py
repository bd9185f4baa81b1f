#!/usr/bin/env python3
"""llamacpp_builds.py ORIGINAL SOURCE BUILD OUT - builds of llama.cpp's CPU kernels, one edit each.

SOURCE is a copy of llama.cpp's tree ORIGINAL that may be edited, BUILD its configured folder (begin_edit of fetch.sh). Writes
OUT/NAME/libggml-{base,cpu}.so, which `gate --build` takes, and OUT/builds.txt: name, `caught`, `right` or `any` (what it gives is
shown, and nothing is expected), and the forms of model (rows_llamacpp_builds.sh) beside which it is judged. For each a file or two
are compiled; a build that is there is left as it is.
SPDX-License-Identifier: Apache-2.0
"""
import glob
import os
import shutil
import subprocess
import sys

from kernel_builds import edited

ALL = "q4_1 q8_0 q4_k q4_k_plain"
TREE = "the llama.cpp that get_llamacpp.sh fetches"
CPU = "ggml/src/ggml-cpu/"
# Kernels: the file, and how the text of the kernel begins; it ends with the next line that begins with "}".
PRODUCT = CPU + "ggml-cpu.c", "static void ggml_compute_forward_mul_mat_one_chunk("    # calls a DOT for each element of an output
Q4_1 = CPU + "arch/x86/quants.c", "void ggml_vec_dot_q4_1_q8_1("
Q8_1 = CPU + "arch/x86/quants.c", "void quantize_row_q8_1("                             # activations of Q4_1
Q8_0 = CPU + "arch/x86/quants.c", "void quantize_row_q8_0("                             # activations of Q8_0
Q8_DOT = CPU + "arch/x86/quants.c", "void ggml_vec_dot_q8_0_q8_0("                      # of one row
TILES = CPU + "llamafile/sgemm.cpp", "class tinyBLAS_Q0_AVX {"                          # two rows or more of Q8_0
SGEMM = CPU + "llamafile/sgemm.cpp", "bool llamafile_sgemm("
K_TILES = CPU + "tiled/tiled-kernel.cpp", "static void tiled_run_microtile_avx2("           # eight rows or more of Q4_K, Q6_K ...
K_CHOICE = CPU + "tiled/tiled.cpp", "static bool ggml_tiled_min_batch("
GEMM = CPU + "arch/x86/repack.cpp", "void ggml_gemm_q4_K_8x8_q8_K("                       # Q4_K repacked: four rows at a time
GEMV = CPU + "arch/x86/repack.cpp", "void ggml_gemv_q4_K_8x8_q8_K("                       # one row

# PRODUCT: a tile of 16 columns of one row, before it is copied into the output
STORE = "                for (int cn = 0; cn < num_rows_per_vec_dot; ++cn) {\n"


def columns(which, factor):
    """Columns of which a condition on `ir0`, the column, holds, times a factor."""
    return [(STORE, "                for (int64_t ir0 = iir0; ir0 < iir0 + blck_0 && ir0 < ir0_end; ir0++)\n"
             f"                    if ({which}) tmp[ir0 - iir0] *= {factor};\n" + STORE)]


def tile_columns(which, factor):
    """The same of TILES."""
    return [("= hsum(Cv[j][i]);", f"= hsum(Cv[j][i]) * (({which}) ? {factor} : 1.0f);", 3)]


def k_columns(factor):
    """The same of K_TILES."""
    return [(f"float {d} = src0.{d[:-1]}[d_off];", f"float {d} = src0.{d[:-1]}[d_off] * (ar % 16 == 5 ? {factor} : 1.0f);") for d in ("d0", "dmin0")]


def scaled_lane(vector, factor):
    """One of eight columns of GEMM and GEMV."""
    return f"_mm256_mul_ps({vector}, _mm256_set_ps(1, 1, {factor}, 1, 1, 1, 1, 1))"


PACKED = "_mm256_sub_ps(acc_rows[i], acc_min_rows[i])"
BLOCKS = "    for (; ib < nb; ++ib) {\n"
COUNT = "for (int64_t l = 0; l < k; ++l)"
# name: what must come of it, beside which forms, the kernel, and edits (its text, what stands in its place, how often it is there: once)
EDITS = {
    "itself": ("right", ALL, PRODUCT, []),
    # one column in 16, by a share of it: 2^-11 is a unit of float16, 2^-23 of float32
    "column_1pct": ("caught", "q4_1", PRODUCT, columns("ir0 % 16 == 5", "1.01f")),
    "column_01pct": ("caught", "q4_1", PRODUCT, columns("ir0 % 16 == 5", "1.001f")),
    "column_2^-11": ("caught", "q4_1", PRODUCT, columns("ir0 % 16 == 5", "0x1.002p0f")),
    "column_2^-14": ("caught", "q4_1", PRODUCT, columns("ir0 % 16 == 5", "0x1.0004p0f")),
    "column_2^-17": ("caught", "q4_1", PRODUCT, columns("ir0 % 16 == 5", "0x1.00008p0f")),
    "column_2^-20": ("any", "q4_1", PRODUCT, columns("ir0 % 16 == 5", "0x1.00001p0f")),
    "column_2^-23": ("any", "q4_1", PRODUCT, columns("ir0 % 16 == 5", "0x1.000002p0f")),
    "all_2^-14": ("caught", "q4_1", PRODUCT, columns("true", "0x1.0004p0f")),
    "last_column_01pct": ("caught", "q4_1", PRODUCT, columns("ir0 == ne01 - 1", "1.001f")),
    "last_block": ("caught", "q4_1", PRODUCT, [("vec_dot(ne00, &tmp", "vec_dot(ne00 - (ne00 > 32 ? 32 : 0), &tmp")]),
    "wrong_row": ("caught", "q4_1", PRODUCT, [("(i11 + i12 * ne11", "(i11 - (i11 && i11 == ne11 - 1) + i12 * ne11")]),
    "wrong_column": ("caught", "q4_1", PRODUCT, [("src0_row + ir0 * nb01, (num", "src0_row + (ir0 - (ir0 % 64 == 63)) * nb01, (num")]),
    # the last column of a tile keeps what the row before left there
    "stale_column": ("caught", "q4_1", PRODUCT, [("    for (int64_t ir0 = iir0; ir0 < iir0 + blck_0 && ir0 < ir0_end; ir0 += num",
                                                "    for (int64_t ir0 = iir0; ir0 < iir0 + blck_0 - (ir1 > iir1) && ir0 < ir0_end; ir0 += num")]),
    "tail": ("caught", "q4_1", PRODUCT, [("(MIN(iir0 + blck_0, ir0_end) - iir0)",
                                        "(MIN(iir0 + blck_0, ir0_end) - iir0 - (ir0_end == ne01 && iir0 + blck_0 >= ir0_end))")]),
    "block_7": ("caught", "q4_1", Q4_1, [(BLOCKS, BLOCKS + "        if (ib == 7) continue;\n")]),
    "scales_late": ("caught", "q4_1", Q4_1, [("FP32(x[ib].d)", "FP32(x[ib - (ib % 8 == 7)].d)")]),
    "scales_bf16": ("caught", "q4_1", Q4_1, [("GGML_CPU_FP16_TO_FP32(x[ib].d)",
                                             "GGML_BF16_TO_FP32(GGML_FP32_TO_BF16(GGML_CPU_FP16_TO_FP32(x[ib].d)))")]),
    "minima_late": ("caught", "q4_1", Q4_1, [("FP32(x[ib].m)", "FP32(x[ib - (ib % 8 == 7)].m)")]),
    "minimum_lost": ("caught", "q4_1", Q4_1, [("        summs +=", "        if (ib) summs +=")]),
    "lane_lost": ("caught", "q4_1", Q4_1, [("hsum_float_8(acc)", "hsum_float_8(_mm256_blend_ps(acc, _mm256_setzero_ps(), 0x80))")]),
    "nibble_14": ("caught", "q4_1", Q4_1, [("= bytes_from_nibbles_32(x[ib].qs);",
                                           "= _mm256_min_epu8(bytes_from_nibbles_32(x[ib].qs), _mm256_set1_epi8(14));")]),
    "halves_added": ("caught", "q4_1", Q4_1, [("acc = _mm256_fmadd_ps( d0d1, xy, acc );",
                                              "acc = _mm256_cvtph_ps(_mm256_cvtps_ph(_mm256_fmadd_ps( d0d1, xy, acc ), 0));")]),
    "scale_126": ("caught", "q4_1", Q8_1, [("max_scalar / 127.f", "max_scalar / 126.f")]),
    # the sum of 24 codes in place of 32
    "sum_of_24": ("caught", "q4_1", Q8_1, [("_mm256_add_epi32(_mm256_add_epi32(i0, i1), _mm256_add_epi32(i2, i3))", "_mm256_add_epi32(_mm256_add_epi32(i0, i1), i2)")]),
    "honest_reverse": ("right", "q4_1", Q4_1, [(BLOCKS, "    for (int left = nb; left > 0; --left) {\n        ib = left - 1;\n")]),
    "honest_two_sums": ("right", "q4_1", Q4_1, [
        ("    __m256 acc = _mm256_setzero_ps();\n", "    __m256 acc = _mm256_setzero_ps(), other = acc, swap;\n"),
        ("        acc = _mm256_fmadd_ps( d0d1, xy, acc );\n", "        swap = _mm256_fmadd_ps( d0d1, xy, acc ), acc = other, other = swap;\n"),
        ("hsum_float_8(acc)", "hsum_float_8(_mm256_add_ps(acc, other))")]),
    "honest_generic": ("right", "q4_1", Q4_1, [("#if defined(__AVX2__) || defined(__AVX__)\n", "#if 0\n")]),
    "activation_cut": ("caught", "q8_0", Q8_0, [("_MM_ROUND_NEAREST", "_MM_FROUND_TO_ZERO", 4)]),
    "activation_bf16": ("caught", "q8_0", Q8_0, [("y[i].d = GGML_CPU_FP32_TO_FP16(d);",
                                                 "y[i].d = GGML_CPU_FP32_TO_FP16(GGML_BF16_TO_FP32(GGML_FP32_TO_BF16(d)));")]),
    "row_block_7": ("caught", "q8_0", Q8_DOT, [
        ("        acc = _mm256_fmadd_ps( d, q, acc );", "        if (ib != 7) acc = _mm256_fmadd_ps( d, q, acc );")]),
    "row_halves": ("caught", "q8_0", Q8_DOT, [
        ("        acc = _mm256_fmadd_ps( d, q, acc );", "        acc = _mm256_cvtph_ps(_mm256_cvtps_ph(_mm256_fmadd_ps( d, q, acc ), 0));")]),
    "tile_01pct": ("caught", "q8_0", TILES, tile_columns("(ii + i) % 16 == 5", "1.001f")),
    "tile_2^-11": ("caught", "q8_0", TILES, tile_columns("(ii + i) % 16 == 5", "0x1.002p0f")),
    "tile_2^-14": ("caught", "q8_0", TILES, tile_columns("(ii + i) % 16 == 5", "0x1.0004p0f")),
    "tile_2^-17": ("caught", "q8_0", TILES, tile_columns("(ii + i) % 16 == 5", "0x1.00008p0f")),
    "tile_2^-20": ("any", "q8_0", TILES, tile_columns("(ii + i) % 16 == 5", "0x1.00001p0f")),
    # blocks left over by a loop of four
    "tile_blocks": ("caught", "q8_0", TILES, [("l < k;", "l < k / 4 * 4;", 3)]),
    "tile_scale_column": ("caught", "q8_0", TILES, [("Cv[j][2] = madd(_mm256_shuffle_ps(dvec, dvec, 170)",
                                                    "Cv[j][2] = madd(_mm256_shuffle_ps(dvec, dvec, 85)")]),
    "tile_scale_row": ("caught", "q8_0", TILES, [("__m128 db = _mm_set1_ps(unhalf(B[ldb * (jj + j) + l].d));",
                                                "__m128 db = _mm_set1_ps(unhalf(B[ldb * (jj + j - (j && j == RN - 1)) + l].d));")]),
    "tile_scale_bf16": ("caught", "q8_0", TILES, [("__m128 da = _mm_cvtph_ps(_mm_set_epi64x(0, a_delta));",
                                                 "__m128 da = _mm_and_ps(_mm_cvtph_ps(_mm_set_epi64x(0, a_delta)), "
                                                 "_mm_castsi128_ps(_mm_set1_epi32(-65536)));")]),
    "tile_lane": ("caught", "q8_0", TILES, [("= hsum(Cv[j][i]);", "= hsum(_mm256_blend_ps(Cv[j][i], _mm256_setzero_ps(), 0x80));", 3)]),
    "honest_tile_reverse": ("right", "q8_0", TILES, [(COUNT, "for (int64_t l = k; l-- > 0;)", 3)]),
    "honest_untiled": ("right", "q8_0", SGEMM, [("    if (n < 2)\n", "    if (n > 0)\n")]),
    # Q4_K, as llama.cpp repacks it: four rows or more, and those that are left
    "repack_2^-11": ("caught", "q4_k", GEMM, [(PACKED, scaled_lane(PACKED, "0x1.002p0f"), 2)]),
    "repack_2^-14": ("caught", "q4_k", GEMM, [(PACKED, scaled_lane(PACKED, "0x1.0004p0f"), 2)]),
    "repack_2^-17": ("any", "q4_k", GEMM, [(PACKED, scaled_lane(PACKED, "0x1.00008p0f"), 2)]),
    "repack_minima": ("caught", "q4_k", GEMM, [(PACKED, f"i % 4 == 3 ? acc_rows[i] : {PACKED}", 2)]),
    "repack_rows": ("caught", "q4_k", GEMM, [("_mm256_storeu_ps((float * )(s + ((y * 4 + i) *",
                                             "_mm256_storeu_ps((float * )(s + ((y * 4 + (i ^ 1)) *", 2)]),
    "repack_row_scales": ("caught", "q4_k", GEMV, [("GGML_F32Cx8_REARRANGE_LOAD(b_ptr[b].d, deltamask)", "GGML_F32Cx8_LOAD(b_ptr[b].d)")]),
    "repack_row_minima": ("caught", "q4_k", GEMV, [("GGML_F32Cx8_LOAD(b_ptr[b].dmin)", "GGML_F32Cx8_LOAD(b_ptr[b ? b - 1 : 0].dmin)")]),
    "repack_row_2^-14": ("caught", "q4_k", GEMV, [("_mm256_sub_ps(acc_row, acc_min_rows)",
                                                  scaled_lane("_mm256_sub_ps(acc_row, acc_min_rows)", "0x1.0004p0f"))]),
    "honest_repack_generic": ("right", "q4_k", GEMM, [("#if defined(__AVX2__) || defined(__AVX512F__)\n", "#if 0\n")]),
    # the same model, not repacked; k_column is of Q6_K too, which is never repacked for AVX2
    "k_column_2^-11": ("caught", "q4_k q4_k_plain", K_TILES, k_columns("0x1.002p0f")),
    "k_column_2^-14": ("caught", "q4_k_plain", K_TILES, k_columns("0x1.0004p0f")),
    "k_column_2^-17": ("any", "q4_k_plain", K_TILES, k_columns("0x1.00008p0f")),
    "k_scales_late": ("caught", "q4_k_plain", K_TILES, [("_mm256_set1_epi16(scales_row[s])", "_mm256_set1_epi16(scales_row[s - (s == 7)])")]),
    "k_minima_late": ("caught", "q4_k_plain", K_TILES, [("_mm256_set1_epi32(mins_row[s])", "_mm256_set1_epi32(mins_row[s - (s == 7)])")]),
    "k_sums_half": ("caught", "q4_k_plain", K_TILES, [("(bs_off + s * 2 + 1) *", "(bs_off + s * 2) *")]),
    "k_offset": ("caught", "q4_k_plain", K_TILES, [("    s1_vec = _mm256_sub_epi32(s1_vec, _mm256_set1_epi32(mins_row[0]));",
                                                   "    if (i % 8 != 5) s1_vec = _mm256_sub_epi32(s1_vec, _mm256_set1_epi32(mins_row[0]));")]),
    "honest_k_untiled": ("right", "q4_k q4_k_plain", K_CHOICE, [("rows >= 8 ||", "rows < 0 ||")]),
}
# What get_llamacpp.sh has made beside them
VARIANTS = {
    "bug_q4_1_tail": ("caught", "q4_1"),
    "bug_q8_1_truncate": ("caught", "q4_1"),
    "bug_q8_1_scale_bf16": ("caught", "q4_1"),
    "nofma": ("right", ALL),
    "noavx": ("right", ALL),
    "o1": ("right", ALL),
}


def read(path):
    with open(path) as f:
        return f.read()


def put(path, text):
    """Write a file that has another text, as a new file: the source is hard links. What was there has an older time than its object."""
    if os.path.exists(path) and read(path) == text:
        return
    with open(path + ".new", "w") as f:
        f.write(text)
    os.replace(path + ".new", path)


def edited_kernel(text, begins, edits):
    """A file's text with the edits made in one kernel of it."""
    if text.count(begins) != 1:
        sys.exit(f"this source is not that of {TREE}: {begins!r} is there {text.count(begins)} times")
    begin = text.index(begins)
    end = text.index("\n}", begin)
    return text[:begin] + edited(text[begin:end], edits, TREE) + text[end:]


def make(source, folder, out, files, text):
    """The libraries of one build. The edited text beside them tells whether they are those of the edit as it is now."""
    kept = os.path.join(out, "edited.txt")
    if os.path.exists(kept) and read(kept) == text:
        return
    for file in files:
        put(os.path.join(source, file), files[file])
    subprocess.run(["ninja", "-C", folder, "-j", os.environ["JOBS"], "ggml-cpu"], check=True, stdout=sys.stderr)
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    for library in glob.glob(folder + "/bin/libggml-base.so*") + glob.glob(folder + "/bin/libggml-cpu.so*"):
        shutil.copy2(library, out, follow_symlinks=False)
    put(kept, text)


def same(out, name):
    """Is a build's library that of `itself`, to the bit?"""
    paths = [os.path.join(out, build, "libggml-cpu.so") for build in (name, "itself")]
    with open(paths[0], "rb") as f, open(paths[1], "rb") as g:
        return f.read() == g.read()


def build(tree, source, folder, out):
    original = {file: read(os.path.join(tree, file)) for file in {kernel[0] for _, _, kernel, _ in EDITS.values()}}
    for name, (_, _, (file, begins), edits) in EDITS.items():
        text = edited_kernel(original[file], begins, edits)
        make(source, folder, os.path.join(out, name), original | {file: text}, text)
        if edits and same(out, name):
            sys.exit(f"{name}: the same code as itself")
        print(name, flush=True)
    for file, text in original.items():
        put(os.path.join(source, file), text)
    put(os.path.join(out, "builds.txt"), "".join(f"{name} {want} {forms}\n" for name, (want, forms, *_) in (EDITS | VARIANTS).items()))


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    build(*sys.argv[1:])


main()
