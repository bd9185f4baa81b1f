"""torch_awq_ops.py - how a vLLM for GPUs multiplies by AWQ's own operators, where no other kernel takes a layer.
SPDX-License-Identifier: Apache-2.0

AutoAWQLinearMethod of vLLM 0.26 (model_executor/layers/quantization/auto_awq.py): awq_gemm, and for 256 rows and more
awq_dequantize and torch's product. Schemas are those of csrc/libtorch_stable/torch_bindings.cpp."""
from torch_gpu_ops import Quantised
from torch_layout_ops import awq_words

SPLIT_K = 8                              # pack_factor, which vLLM passes as split_k_iters


class AwqGemm(Quantised):
    """awq_gemm. Eight parts of the sum are rounded to float16 before they are added."""
    name, layout = "awq_gemm", "awq"

    def __init__(self, build, op):
        super().__init__(build, op)
        self.refuse_unless(op.get("a").dtype == "F16" and self.bits == 4 and self.perm is None and self.fits(), self.takes)
        self.refuse_unless(self.zeros is None or self.zeros.max() <= 15, "zero points up to 15")
        self.rounding = self.rounds_weights()

    takes = "F16, 4 bits, groups that are a multiple of 32 and divide N, N that are multiples of 64, and no act-order"

    def fits(self):
        return self.n % 64 == self.group % 32 == self.n % self.group == 0

    def prepare(self):
        self.a, self.bias = self.load("a"), self.load("bias")
        self.scales = self.on_gpu("scales", self.load_scales())
        self.w = self.on_gpu("qweight", awq_words(self, "qweight", 0, 0))
        self.zero = self.on_gpu("qzeros", awq_words(self, "qzeros", 1, self.op.attrs.get("zero_offset", 1)))

    def call(self):
        return self.add_bias(self.op_of(_in_feats=self.a, _kernel=self.w, _scaling_factors=self.scales, _zeros=self.zero, split_k_iters=SPLIT_K))


class AwqDequantized(AwqGemm):
    """awq_dequantize makes floats of W, by which torch multiplies."""
    name = "awq_dequantize"
    takes = "F16, 4 bits, K that are multiples of 8 and N of 64, and no act-order"

    def fits(self):
        return self.k % 8 == self.n % 64 == 0

    def call(self):
        w = self.op_of(_kernel=self.w, _scaling_factors=self.scales, _zeros=self.zero, split_k_iters=0, thx=0, thy=0)
        return self.add_bias(self.build.torch.matmul(self.a, w))
