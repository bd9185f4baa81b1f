"""torch_scaled_ops.py - how a vLLM for GPUs multiplies 8-bit numbers: cutlass_scaled_mm, cutlass_scaled_mm_azp and
cutlass_moe_mm.
SPDX-License-Identifier: Apache-2.0

Shapes and strides are those of vLLM 0.26 (model_executor/kernels/linear/scaled_mm/cutlass.py, _custom_ops.py,
layers/fused_moe/experts/cutlass_moe.py)."""
from torch_build import Unsupported, need
from torch_gpu_ops import MARGIN, Guarded, Plan

EIGHT_BITS = {"F8_E4M3": "F8_E4M3", "I8": "I8"}   # of a, then of w


def rounding_of_sums(build):
    """Hopper's tensor cores cut sums of 8-bit floats (kernels/ops/cut_sums.h)."""
    return "sum-e8m13" if tuple(build.torch.cuda.get_device_capability()) == (9, 0) else "none"


class WritesC(Plan):
    """An operator that writes into its argument `values[OUT]`: C lies between margins too. Subclasses call make_c()."""

    def make_c(self):
        torch, out = self.build.torch, self.op.out
        self.c = Guarded(torch, torch.empty(out.shape, dtype=self.build.dtypes[out.dtype]))
        return self.c.x

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


class ScaledMM(WritesC):
    """CutlassFP8ScaledMMLinearKernel, CutlassFp8BlockScaledMMKernel, CutlassInt8ScaledMMLinearKernel."""

    def __init__(self, build, op):
        self.name = "cutlass_scaled_mm_azp" if op.get("azp_adj") else "cutlass_scaled_mm"
        super().__init__(build, op)
        a, w, _, _ = need(op, "a", "w", "a_scales", "w_scales")
        self.op_of = build.operator(self.name)
        self.by_block = "block" in op.attrs and op.attrs["block"]
        if a.dtype != "I8":
            self.rounding = rounding_of_sums(build)
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
        self.values = {"out": self.make_c(), "a": self.load("a"), "b": self.load("w").t(), "a_scales": self.scales("a_scales"),
                       "b_scales": self.scales("w_scales"), "bias": self.load("bias")}
        if self.op.get("azp_adj"):
            self.values.update(azp_adj=self.load("azp_adj"), azp=self.load("azp"))


class MoeScaledMM(WritesC):
    """CutlassExpertsFp8, whose rows come sorted by expert. Rows that no expert has stay what they were."""
    name = "cutlass_moe_mm"

    def __init__(self, build, op):
        super().__init__(build, op)
        a, w, _, _, _, _ = need(op, "a", "w", "a_scales", "w_scales", "expert_offsets", "problem_sizes")
        self.op_of, self.rounding = build.operator(self.name), rounding_of_sums(build)
        if a.dtype != "F8_E4M3" or w.dtype != "F8_E4M3" or op.out.dtype not in ("F16", "BF16"):
            raise Unsupported(f"{self.name} takes F8_E4M3 and gives F16 or BF16; here {a.dtype} by {w.dtype} gives {op.out.dtype}")
        if op.attrs["k"] % 16 or op.attrs["n"] % 16:
            raise Unsupported(f"{self.name} takes K and N that are multiples of 16; here K {op.attrs['k']}, N {op.attrs['n']}")

    def prepare(self):
        op, attrs = self.op, self.op.attrs
        by_token, by_channel = op.get("a_scales").shape[0] == attrs["m"], len(op.get("w_scales").shape) == 2
        a_scales, w_scales = self.load("a_scales"), self.load("w_scales")
        self.values = {"out_tensors": self.make_c(), "a_tensors": self.load("a"), "b_tensors": self.load("w"), "a_scales": a_scales.view(-1, 1),
                       "b_scales": w_scales if by_channel else w_scales.view(-1, 1), "expert_offsets": self.load("expert_offsets"),
                       "problem_sizes": self.load("problem_sizes"), "a_strides": self.strides(attrs["k"]), "b_strides": self.strides(attrs["k"]),
                       "c_strides": self.strides(attrs["n"]), "per_act_token": by_token, "per_out_ch": by_channel}

    def strides(self, elements):
        torch = self.build.torch
        return torch.full([self.op.attrs["experts"]], elements, dtype=torch.int64, device="cuda")
