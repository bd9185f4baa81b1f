"""half_make.py - what numpy says float16 arithmetic gives: writes half_expected.h beside it, for test_simt.

SPDX-License-Identifier: Apache-2.0

Run: python3 tests/unit/data/half_make.py     (numpy 1.24.2 made the file that is committed)
Sum, difference, product and conversion are numpy's own float16; the fused multiply-add, which numpy lacks, is an exact fraction that is compared with
the numpy halves around it. A NaN that an operation makes is 0x7fff on an NVIDIA GPU (PTX ISA), and so it stands here.
"""
import pathlib
from fractions import Fraction

import numpy as np

rng = np.random.default_rng(16)
SPECIAL = [0x0000, 0x8000, 0x0001, 0x8001, 0x0002, 0x03FF, 0x83FF, 0x0400, 0x8400, 0x0401, 0x3C00, 0xBC00, 0x3C01, 0x3BFF, 0x1000, 0x1001, 0x0C00, 0x7BFF, 0xFBFF,
           0x7800, 0x7BFE, 0x7C00, 0xFC00, 0x7E00, 0x7C01, 0xFE12]


def half(bits):
    return np.array([bits], dtype=np.uint16).view(np.float16)[0]


def bits(h):
    return 0x7FFF if np.isnan(h) else int(np.array([h], dtype=np.float16).view(np.uint16)[0])


def fma(a, b, c):
    with np.errstate(all="ignore"):
        rough = float(a) * float(b) + float(c)
    if not np.isfinite([float(a), float(b), float(c)]).all():
        return 0x7FFF if np.isnan(rough) else bits(np.float16(rough))
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if exact == 0:
        return bits(np.float16(rough))  # the sign of zero is that of the double sum, which is exact here
    if abs(exact) >= 65520:  # half way between the largest half and the next
        return 0xFC00 if exact < 0 else 0x7C00
    low = int(np.array([min(abs(rough), 65504)], dtype=np.float16).view(np.uint16)[0])
    best = min((b for b in range(max(low - 2, 0), min(low + 3, 0x7C00))), key=lambda b: (abs(Fraction(float(half(b))) - abs(exact)), b & 1))
    return best | (0x8000 if exact < 0 else 0)


def hard():
    """The product is half a unit in the last place of c, and a little more or less."""
    c = int(rng.integers(0x2C00, 0x7800))
    ulp = 2.0 ** ((c >> 10) - 15 - 10)
    a = np.float16(np.sqrt(ulp / 2) * rng.uniform(0.5, 2))
    b = np.float16(ulp / 2 / float(a))
    return bits(a) ^ int(rng.integers(0, 2)) << 15, bits(b), c ^ int(rng.integers(0, 2)) << 15


rows = []
for i in range(700):
    if i < 250:
        a, b, c = (int(SPECIAL[j]) for j in rng.integers(0, len(SPECIAL), 3))
    elif i < 450:
        a, b, c = (int(v) for v in rng.integers(0, 1 << 16, 3))
    elif i < 600:
        a, b, c = hard()
    else:
        a, b, c = (bits(np.float16(v)) for v in rng.normal(0, 2, 3))
    f = np.array([rng.integers(0, 1 << 32)], dtype=np.uint32).view(np.float32)[0] if i % 2 else np.float32(rng.normal(0, 1) * 10.0 ** rng.integers(-8, 6))
    if i % 7 == 0:  # a tie between two halves
        f = np.float32((float(half(i % 0x7BFF)) + float(half(i % 0x7BFF + 1))) / 2)
    with np.errstate(all="ignore"):
        x, y = half(a), half(b)
        rows.append((a, b, c, int(np.array([f]).view(np.uint32)[0]), bits(x + y), bits(x - y), bits(x * y), fma(half(a), half(b), half(c)), bits(np.fmax(x, y)),
                     bits(np.fmin(x, y)), bits(np.float16(f))))

text = ["/* half_expected.h - made by half_make.py with numpy; do not edit.", " * SPDX-License-Identifier: Apache-2.0 */", "/* clang-format off */",
        "static const struct { unsigned short a, b, c; unsigned f; unsigned short add, sub, mul, fma, max, min, from_float; } half_expected[] = {"]
text += ["    {" + ", ".join(f"0x{v:x}" for v in r) + "}," for r in rows] + ["};", ""]
pathlib.Path(__file__).with_name("half_expected.h").write_text("\n".join(text))
