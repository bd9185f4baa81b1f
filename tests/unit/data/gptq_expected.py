"""gptq_expected.py - what numpy says a few GPTQ products are: writes gptq_expected.h beside it, for test_gptq_gemm and test_gptq.

SPDX-License-Identifier: Apache-2.0

Run: python3 tests/unit/data/gptq_expected.py     (numpy 2.4.6 made the file that is committed)
W is made as plain integers first and packed by numpy, so that no unpacking code is shared with the C sources.
"""
import pathlib

import numpy as np

rng = np.random.default_rng(20240607)
out = ["/* gptq_expected.h - made by gptq_expected.py with numpy; do not edit.\n * SPDX-License-Identifier: Apache-2.0 */", "/* clang-format off */"]


def pack(values, bits, axis):
    """values : [R, C] integers; a word holds 32/bits neighbours along axis, the first in the lowest bits."""
    v = np.moveaxis(values.astype(np.uint32), axis, -1)
    v = v.reshape(*v.shape[:-1], -1, 32 // bits)
    words = (v << (np.arange(32 // bits, dtype=np.uint32) * bits)).sum(axis=-1, dtype=np.uint32)
    return np.moveaxis(words, -1, axis)


def array(ctype, name, values, fmt):
    body = ", ".join(fmt(v) for v in np.ravel(values))
    out.append(f"static const {ctype} {name}[] = {{{body}}};")


cases = []
for name, m, n, k, bits, group, zero_offset, act in [("v1_4bit", 3, 8, 64, 4, 32, 1, False), ("v2_4bit_act", 2, 16, 96, 4, 32, 0, True),
                                                     ("v1_8bit", 2, 4, 40, 8, 40, 1, False), ("v2_8bit_act", 2, 12, 64, 8, 32, 0, True)]:
    groups = k // group
    q = rng.integers(0, 1 << bits, (k, n))
    stored = rng.integers(0, 1 << bits, (groups, n))
    scales = rng.uniform(0.001, 0.1, (groups, n)).astype(np.float16)
    g = rng.permutation(np.arange(k) // group) if act else np.arange(k) // group
    a = rng.normal(0, 1, (m, k)).astype(np.float16)
    w = (q - (stored + zero_offset)[g]).astype(np.float64) * scales.astype(np.float64)[g]
    c = a.astype(np.float64) @ w
    half = lambda v: f"0x{v:04x}"
    array("uint16_t", f"{name}_a", a.view(np.uint16), half)
    array("uint32_t", f"{name}_qweight", pack(q, bits, 0), lambda v: f"0x{v:08x}")
    array("uint32_t", f"{name}_qzeros", pack(stored, bits, 1), lambda v: f"0x{v:08x}")
    array("uint16_t", f"{name}_scales", scales.view(np.uint16), half)
    array("int32_t", f"{name}_g_idx", g, str)
    array("double", f"{name}_w", w[[0, k // 2, k - 1]], lambda v: float(v).hex())
    array("double", f"{name}_c", c, lambda v: float(v).hex())
    cases.append(f'    {{"{name}", {m}, {n}, {k}, {bits}, {group}, {zero_offset}, {int(act)}, {name}_a, {name}_qweight, {name}_qzeros, '
                 f'{name}_scales, {name}_g_idx, {name}_w, {name}_c}},')
out += ["", "/* w: rows 0, k / 2 and k - 1 of the dequantised matrix; c: [m, n] in double */",
        "static const struct gptq_expected {", "    const char *name;", "    int m, n, k, bits, group_size, zero_offset, act_order;",
        "    const uint16_t *a;", "    const uint32_t *qweight, *qzeros;", "    const uint16_t *scales;", "    const int32_t *g_idx;",
        "    const double *w, *c;", "} gptq_expected[] = {", *cases, "};"]
(pathlib.Path(__file__).parent / "gptq_expected.h").write_text("\n".join(out) + "\n")
