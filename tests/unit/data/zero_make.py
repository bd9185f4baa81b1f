"""zero_make.py - the weights of vLLM's machete_mm with zero points: writes zero_expected.h beside it.

SPDX-License-Identifier: Apache-2.0

Run: /usr/bin/python3 tests/unit/data/zero_make.py     (numpy 1.24.2 made the file that is committed)
Column n has one scale and one zero point; its row q is the weight of the number q. float16 is numpy's own arithmetic;
bfloat16, which numpy lacks, is an exact fraction rounded by hand. vLLM 0.26 makes z in torch
(kernels/linear/mixed_precision/machete.py: -1.0 * w_s * zeros, in the type of the scales), and the kernel rounds
q * scale + z once (docs/measurements/2026-11-torch-h100.md).
"""
import pathlib
from fractions import Fraction

import numpy as np

rng = np.random.default_rng(40)
N = 24


def half(x):
    return int(np.array([x], dtype=np.float16).view(np.uint16)[0])


def from_bf16(bits):
    return Fraction(float(np.array([bits << 16], dtype=np.uint32).view(np.float32)[0]))


def bf16(x):
    """The nearest bfloat16 of a fraction, ties to even. Its neighbours are numbers of the same sign."""
    near = int(np.array([float(x)], dtype=np.float32).view(np.uint32)[0]) >> 16
    best = min((b for b in (near - 1, near, near + 1) if 0 <= b < 0xFF80), key=lambda b: (abs(from_bf16(b) - x), b & 1))
    return best


def weights_f16(scale, zero):
    s = np.array([scale], dtype=np.uint16).view(np.float16)[0]
    z = np.float16(-1.0) * s * np.float16(zero)
    return [half(np.float64(q) * np.float64(s) + np.float64(z)) for q in range(16)]


def weights_bf16(scale, zero):
    s = from_bf16(scale)
    z = from_bf16(bf16(-s * zero)) if zero else Fraction(0)
    return [bf16(q * s + z) if q * s + z else 0 for q in range(16)]


zeros = [int(z) for z in rng.integers(0, 16, N)]
f16 = [half(s) for s in rng.uniform(0.001, 0.03, N)]
bfs = [bf16(Fraction(float(s))) for s in rng.uniform(0.001, 0.03, N)]


def table(name, values):
    words = [f"0x{v:04x}" for v in values]
    lines = ["    " + ", ".join(words[i:i + 12]) + "," for i in range(0, len(words), 12)]
    return f"static const uint16_t {name}[] = {{\n" + "\n".join(lines) + "\n};\n"


def by_rows(weights, scales):
    columns = [weights(s, z) for s, z in zip(scales, zeros)]
    return [columns[n][q] for q in range(16) for n in range(N)]


text = "/* Made by zero_make.py. SPDX-License-Identifier: Apache-2.0 */\n" + f"#define ZERO_N {N}\n"
text += f"static const int zero_points[] = {{{', '.join(map(str, zeros))}}};\n"
text += table("zero_scales_f16", f16) + table("zero_scales_bf16", bfs)
text += table("zero_weights_f16", by_rows(weights_f16, f16)) + table("zero_weights_bf16", by_rows(weights_bf16, bfs))
pathlib.Path(__file__).with_name("zero_expected.h").write_text(text)
