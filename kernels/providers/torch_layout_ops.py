"""torch_layout_ops.py - how a vLLM for GPUs brings numbers into another form: columns in another order, weights as floats.
SPDX-License-Identifier: Apache-2.0

Schemas are those of vLLM 0.26 (csrc/libtorch_stable/torch_bindings.cpp)."""
from torch_build import Unsupported, need, words_of
from torch_gpu_ops import ZERO_COLUMNS, Plan, in_columns, pack, unpack


class PermuteCols(Plan):
    name = "permute_cols"

    def __init__(self, build, op):
        super().__init__(build, op)
        self.op_of, (a, _) = build.operator(self.name), need(op, "a", "perm")
        if a.dtype not in ("F16", "BF16") or a.shape[1] % 8:
            raise Unsupported(f"{self.name} takes F16 and BF16, and columns that are a multiple of 8; here {a.dtype}, {a.shape[1]}")

    def prepare(self):
        self.a, self.perm = self.load("a"), self.load("perm")

    def call(self):
        return self.op_of(A=self.a, perm=self.perm)


def awq_words(plan, role, axis, more):
    """The numbers of a tensor in GPTQ's words, in those of AWQ, and more of each."""
    import numpy

    numbers = (unpack(words_of(plan.op.get(role)), 4, axis) + more).astype(numpy.uint32)
    if (numbers > 15).any():
        raise Unsupported(f"{plan.name} has zero points up to 15")
    return plan.build.torch.from_numpy(pack(in_columns(numbers, ZERO_COLUMNS[4]), 4, 1).view("int32"))


class AwqDequantize(Plan):
    """AWQLinearMethod, for many rows (layers/quantization/auto_awq.py). A recording has every so many rows of the result."""
    name = "awq_dequantize"

    def __init__(self, build, op):
        super().__init__(build, op)
        self.op_of, _ = build.operator(self.name), need(op, "qweight", "scales", "qzeros")
        self.k, self.n = op.attrs["k"], op.attrs["n"]
        if op.attrs["bits"] != 4 or op.out.dtype != "F16" or self.k % 8 or self.n % 64:
            raise Unsupported(f"{self.name} takes 4 bits, F16, K that are multiples of 8 and N of 64; here {op.attrs['bits']} bits, {op.out.dtype}, K {self.k}, N {self.n}")
        self.compiles = f"{self.name} F16 4"

    def prepare(self):
        self.w = self.on_gpu("qweight", awq_words(self, "qweight", 0, 0))
        self.zero = self.on_gpu("qzeros", awq_words(self, "qzeros", 1, self.op.attrs.get("zero_offset", 1)))
        self.scales = self.on_gpu("scales", self.build.tensor(self.op.get("scales")).to(self.build.dtypes["F16"]).contiguous())

    def result_shape(self):
        return [self.k, self.n]

    def call(self):
        return self.op_of(_kernel=self.w, _scaling_factors=self.scales, _zeros=self.zero, split_k_iters=0, thx=0, thy=0)

    def fetch(self):
        self.result = self.result[::self.op.attrs.get("every", 1)]
        return super().fetch()


KINDS = {"permute_cols": PermuteCols, "dequantize": AwqDequantize}
