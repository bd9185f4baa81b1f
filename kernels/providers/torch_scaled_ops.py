"""torch_scaled_ops.py - how a vLLM for GPUs multiplies 8-bit numbers: cutlass_scaled_mm and cutlass_scaled_mm_azp.
SPDX-License-Identifier: Apache-2.0

Shapes and strides are those of vLLM 0.26 (model_executor/kernels/linear/scaled_mm/cutlass.py, _custom_ops.py)."""
from torch_build import Unsupported, need
from torch_gpu_ops import MARGIN, Guarded, Plan

EIGHT_BITS = {"F8_E4M3": "F8_E4M3", "I8": "I8"}   # of a, then of w


class ScaledMM(Plan):
    """CutlassFP8ScaledMMLinearKernel, CutlassFp8BlockScaledMMKernel, CutlassInt8ScaledMMLinearKernel. The operator
    writes into its argument: C lies between margins too."""

    def __init__(self, build, op):
        self.name = "cutlass_scaled_mm_azp" if op.get("azp_adj") else "cutlass_scaled_mm"
        super().__init__(build, op)
        a, w, _, _ = need(op, "a", "w", "a_scales", "w_scales")
        self.op_of = build.operator(self.name)
        self.by_block = "block" in op.attrs and op.attrs["block"]
        bias = op.get("bias")
        if EIGHT_BITS.get(a.dtype) != w.dtype or op.out.dtype not in ("F16", "BF16"):
            raise Unsupported(f"{self.name} takes F8_E4M3 or I8 and gives F16 or BF16; here {a.dtype} by {w.dtype} gives {op.out.dtype}")
        if op.attrs["k"] % 16 or op.attrs["n"] % 16:
            raise Unsupported(f"{self.name} takes K and N that are multiples of 16; here K {op.attrs['k']}, N {op.attrs['n']}")
        if bias and bias.dtype != op.out.dtype or bias and self.by_block:
            raise Unsupported(f"{self.name} adds a bias of C's type, and none to scales per block")

    def scales(self, role):
        """One scale, or a column of them; per block [lines, blocks] column after column, as the kernel reads them."""
        x = self.load(role)
        return x.t() if self.by_block else x.view(-1, 1)

    def prepare(self):
        torch, out = self.build.torch, self.op.out
        self.c = Guarded(torch, torch.empty(out.shape, dtype=self.build.dtypes[out.dtype]))
        self.values = {"out": self.c.x, "a": self.load("a"), "b": self.load("w").t(), "a_scales": self.scales("a_scales"),
                       "b_scales": self.scales("w_scales"), "bias": self.load("bias")}
        if self.op.get("azp_adj"):
            self.values.update(azp_adj=self.load("azp_adj"), azp=self.load("azp"))

    def run(self):
        torch = self.build.torch
        if self.pattern is not None:
            self.c.x.view(-1).view(torch.uint8).view(-1, len(self.pattern)).copy_(self.pattern)
        self.result = self.call()

    def call(self):
        self.op_of(**self.values)
        return self.c.x

    def fetch(self):
        equal, c = self.build.torch.equal, self.c
        found, end = super().fetch(), MARGIN + c.x.numel() * c.x.element_size()
        if not found and not (equal(c.all[:MARGIN], c.copy[:MARGIN]) and equal(c.all[end:], c.copy[end:])):
            found = "wrote beside its output"
        return found
