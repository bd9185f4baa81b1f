"""cut_sums_make.py ARITHMETIC - sums of 8-bit floats as Hopper's tensor cores keep them: writes cut_sums_expected.h beside it.

SPDX-License-Identifier: Apache-2.0

ARITHMETIC: mmasim/simulator/arithmetic.py of MMA-Sim (https://github.com/microsoft/MMA-Sim, commit c7851383), whose
nv_fused_dot_add was compared bit for bit with H100s by its authors (arXiv:2511.10909). It asks torch for a few things only,
which stand here instead. Run with numpy 2 and ml_dtypes:
    python3 tests/unit/data/cut_sums_make.py .../arithmetic.py
Each sum goes over K products, 32 by an instruction, as m64nNk32 wgmma does, the accumulator of one being the next one's c.
"""
import importlib.util
import pathlib
import sys
import types

import ml_dtypes
import numpy as np

K, SUMS = 96, 40


class Tensor:
    def __init__(self, x, dtype=None):
        self.x, self.dtype = np.asarray(x), dtype

    def item(self):
        return float(self.x)

    def numel(self):
        return self.x.size

    def double(self):
        return Tensor(self.x.astype(np.float64), "float64")

    def sum(self):
        return Tensor(self.x.sum(), self.dtype)

    def any(self):
        return bool(self.x.any())

    def __getitem__(self, i):
        return Tensor(self.x[i], self.dtype)

    def __mul__(self, other):
        return Tensor(self.x * other.x, self.dtype)

    def __add__(self, other):
        return Tensor(self.x + other.x, self.dtype)


class Names(types.ModuleType):
    def __getattr__(self, name):
        return name                      # torch.float32: a dtype by its name


torch = Names("torch")
torch.dtype = str
torch.Tensor, torch.tensor = Tensor, lambda x, dtype="float32": Tensor(x, dtype)
torch.isnan, torch.isinf = (lambda t: Tensor(np.isnan(t.x))), (lambda t: Tensor(np.isinf(t.x)))
sys.modules["torch"] = torch
spec = importlib.util.spec_from_file_location("arithmetic", sys.argv[1])
arithmetic = importlib.util.module_from_spec(spec)
spec.loader.exec_module(arithmetic)

rng = np.random.default_rng(13)


def numbers(dtype, how):
    x = rng.standard_normal(K) * (40, 1, 0.01, 8)[how]
    x[rng.random(K) < (0, 0.2, 0.1, 0)[how]] = 0
    if how == 3:
        x *= 2.0 ** rng.integers(-8, 4, K)
    return x.astype(ml_dtypes.float8_e4m3fn if dtype == "float8_e4m3fn" else ml_dtypes.float8_e5m2)


def total(a, a_type, w, w_type):
    c = Tensor(0.0, "float32")
    for k in range(0, K, 32):
        part = slice(k, k + 32)
        c = arithmetic.nv_fused_dot_add(Tensor(a[part].astype(np.float64), a_type), Tensor(w[part].astype(np.float64), w_type), c, 13, "f32_e8m13")
    return c.item()


rows = {"a": [], "w": [], "sum": []}
TYPES = [("float8_e4m3fn", "float8_e4m3fn"), ("float8_e5m2", "float8_e4m3fn")]
for i in range(SUMS):
    a_type, w_type = TYPES[i % 2]
    a, w = numbers(a_type, i // 2 % 4), numbers(w_type, i // 8 % 4)
    rows["a"].append(", ".join(map(str, a.view(np.uint8))))
    rows["w"].append(", ".join(map(str, w.view(np.uint8))))
    rows["sum"].append(total(a, a_type, w, w_type).hex() + "f")

with open(pathlib.Path(__file__).with_name("cut_sums_expected.h"), "w") as f:
    f.write("/* cut_sums_expected.h - sums of 8-bit floats by MMA-Sim; made by cut_sums_make.py.\n * SPDX-License-Identifier: Apache-2.0 */\n")
    f.write(f"#define CUT_K {K}\n#define CUT_SUMS {SUMS}\n/* an odd sum's a is E5M2; all else is E4M3 */\n")
    for name in "aw":
        f.write(f"static const unsigned char cut_{name}[CUT_SUMS][CUT_K] = {{\n" + "".join(f"    {{{r}}},\n" for r in rows[name]) + "};\n")
    f.write("static const float cut_sum[CUT_SUMS] = {\n" + "".join(f"    {s},\n" for s in rows["sum"]) + "};\n")
