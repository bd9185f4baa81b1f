"""torch_allspark_ops.py - how a vLLM for GPUs runs an op by allspark_w8a16_gemm.
SPDX-License-Identifier: Apache-2.0

Source: vLLM 0.26, model_executor/kernels/linear/mixed_precision/allspark.py and layers/quantization/utils/allspark_utils.py."""
from torch_build import words_of
from torch_gpu_ops import Quantised, unpack

CUBLAS_ROWS = 1024                       # more rows are multiplied by cuBLAS


class AllSpark(Quantised):
    """AllSparkLinearKernel, for GPUs of compute capability 8."""
    name, layout = "allspark_w8a16_gemm", "allspark"

    def __init__(self, build, op):
        super().__init__(build, op)
        self.repack = build.operator("rearrange_kn_weight_as_n32k16_order")
        properties = build.torch.cuda.get_device_properties(0)
        self.sm_count, self.sm_version = properties.multi_processor_count, properties.major * 10 + properties.minor
        fits = op.get("a").dtype in ("F16", "BF16") and self.bits == 8 and self.groups == 1 and self.k % 16 == 0 and self.n % 16 == 0
        self.refuse_unless(fits and self.zeros is None and self.perm is None,
                           "F16 and BF16, 8 bits with one group and no zero points, K and N that are multiples of 16")
        self.refuse_unless(80 <= self.sm_version < 90, f"GPUs of compute capability 8 (this one has {self.sm_version / 10})")
        self.rounding = self.rounds_weights()

    def prepare(self):
        import numpy

        torch = self.build.torch
        padded = -(-self.n // 32) * 32
        self.a, self.bias = self.load("a"), self.load("bias")
        bytes_of = unpack(words_of(self.op.get("qweight")), 8, 0).astype(numpy.uint8)
        w, scales = torch.zeros([padded, self.k], dtype=torch.uint8, device="cuda"), torch.zeros([1, padded], dtype=self.dtype, device="cuda")
        self.repack(b_qweight=torch.from_numpy(numpy.ascontiguousarray(bytes_of)).cuda(), b_scales=self.load_scales().cuda(), b_zeros=None,
                    has_zp=False, b_qweight_reorder=w, b_scales_reorder=scales, b_zeros_reorder=None, K=self.k, N=self.n, N_32align=padded)
        self.w, self.scales = self.on_gpu("qweight", w), self.on_gpu("scales", scales)

    def call(self):
        return self.add_bias(self.op_of(a=self.a, b_qweight=self.w, b_scales=self.scales, b_qzeros=None, n=self.n, group_size=-1,
                                        sm_count=self.sm_count, sm_version=self.sm_version, CUBLAS_M_THRESHOLD=CUBLAS_ROWS, has_zp=False,
                                        n32k16_reorder=True))
