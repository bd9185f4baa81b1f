"""torch_moe_ops.py - how a vLLM for GPUs multiplies with the experts of a mixture, in the routing that was recorded.
SPDX-License-Identifier: Apache-2.0

Source: vLLM 0.26, model_executor/layers/fused_moe/oracle/int_wna16.py (how weights are brought into the layout, expert by
expert) and experts/marlin_moe.py (the call); layers/quantization/moe_wna16.py and fused_moe/fused_moe.py (the same of moe_wna16_gemm)."""
import os

import torch_gpu_ops
from torch_build import Unsupported, need, with_bias_after, words_of
from torch_gpu_ops import SCALE_COLUMNS, SCALE_COLUMNS_ONE_GROUP, ZERO_COLUMNS, in_columns, pack, unpack

ROUTING = ("sorted_token_ids", "expert_ids", "num_tokens_post_padded")


def choose_moe(build, op):
    """The operator that was recorded; TD_OPERATOR=NAME (--as) asks for another of the same meaning."""
    wanted = os.environ.get("TD_OPERATOR", "")
    if wanted and wanted not in (c.name for c in MOE):
        raise Unsupported(f"TD_OPERATOR={wanted}: no such operator for experts is known here; there are {', '.join(c.name for c in MOE)}")
    fits = [c for c in MOE if c.name == wanted or not wanted and (c.layout == op.layout or c.name in op.symbol.split("::"))]
    return (fits or MOE)[0](build, op)


class Moe(torch_gpu_ops.Plan):
    """A product with experts. C is given to the operator, as vLLM does. Subclasses have load_weights(), and call()."""

    def __init__(self, build, op):
        super().__init__(build, op)
        need(op, "a", "qweight", "scales", "qzeros", *ROUTING)
        attrs = op.attrs
        self.op_of = build.operator_of("_moe_C", self.name)
        self.bits, self.k, self.n, self.experts = attrs["bits"], attrs["k"], attrs["n"], attrs["experts"]
        self.group, self.groups = attrs["group_size"], attrs["k"] // attrs["group_size"]
        self.multiplies = bool(attrs.get("mul_topk_weights", 0))
        self.dtype = build.dtypes.get(op.get("a").dtype)
        self.zeros = self.zero_points()

    def refuse_unless(self, ok, what):
        if not ok:
            a = self.op.get("a").dtype
            raise Unsupported(f"{self.name} takes {what}; here {a}, {self.bits} bits, K {self.k}, N {self.n}, blocks of {self.op.attrs['block_size']}")

    def zero_points(self):
        """[experts, groups, n]; None: all are half of the range."""
        zeros = unpack(words_of(self.op.get("qzeros")), self.bits, 2) + self.op.attrs.get("zero_offset", 1)
        return None if (zeros == 1 << (self.bits - 1)).all() else zeros

    def weights_of_rounding(self):
        return {"F16": "weight-f16", "BF16": "weight-bf16"}[self.op.get("a").dtype]

    def prepare(self):
        torch = self.build.torch
        for role in ("a",) + ROUTING:
            setattr(self, role, self.load(role))
        self.topk_weights = self.load("topk_weights")
        self.load_weights()
        self.c = torch.empty(self.op.out.shape, dtype=self.dtype, device="cuda")

    def call_on_poison(self):
        flat = self.c.view(-1).view(self.build.torch.uint8)
        flat.view(-1, len(self.pattern)).copy_(self.pattern)
        return self.call()


class MoeMarlin(Moe):
    """MarlinExperts. Rows of C that no block computes stay what they were."""
    name, layout = "moe_wna16_marlin_gemm", "marlin"

    def __init__(self, build, op):
        super().__init__(build, op)
        need(op, "topk_weights")
        self.repack = build.operator("gptq_marlin_repack")
        tiled = (self.n % 128 == 0 and self.k % 64 == 0) or (self.n % 64 == 0 and self.k % 128 == 0)
        self.refuse_unless(op.get("a").dtype in ("F16", "BF16") and tiled, "F16 and BF16, N that are multiples of 64 and K of 128, or the reverse")
        self.refuse_unless(op.attrs["block_size"] in (8, 16, 32, 48, 64), "blocks of 8, 16, 32, 48 and 64 slots")
        self.refuse_unless(self.zeros is None or self.bits == 4, "zero points of 4 bits")
        self.compiles += f" {op.attrs['block_size']} {self.group} {self.zeros is None}"
        if self.groups > 1:
            self.rounding = self.weights_of_rounding()
        if op.get("bias"):
            self.rounding = with_bias_after(self.rounding)

    def row_orders(self):
        """Of each expert, its rows in the order of their groups: [experts, k]. None: they lie so."""
        import numpy

        if not self.op.get("g_idx"):
            return None
        g_idx, in_order = words_of(self.op.get("g_idx")), numpy.arange(self.k) // self.group
        orders = numpy.argsort(g_idx, axis=1, kind="stable").astype(numpy.int32)
        if (g_idx == in_order).all():
            return None
        if (numpy.take_along_axis(g_idx, orders, 1) != in_order).any():
            raise Unsupported("the groups of this op have different numbers of rows, as a rank's slice has with act-order")
        return orders

    def type_of_weights(self):
        types = self.build.types
        plain, biased = (types.uint4, types.uint4b8) if self.bits == 4 else (types.uint8, types.uint8b128)
        return (biased if self.zeros is None else plain).id

    def load_weights(self):
        torch = self.build.torch
        order = SCALE_COLUMNS if self.groups > 1 else SCALE_COLUMNS_ONE_GROUP
        scales = self.build.tensor(self.op.get("scales")).to(self.dtype).contiguous()
        self.scales = self.on_gpu("scales", in_columns(scales, order))
        self.load_rows()
        self.zero = None if self.zeros is None else self.on_gpu("qzeros", self.zero_words())
        bias = self.op.get("bias")
        self.bias = bias and self.on_gpu("bias", in_columns(self.build.tensor(bias).to(self.dtype).contiguous(), SCALE_COLUMNS_ONE_GROUP))
        self.workspace = torch.zeros([4 * torch.cuda.get_device_properties(0).multi_processor_count], dtype=torch.int32, device="cuda")

    def load_rows(self):
        """gptq_marlin_moe_repack, with the order of rows where there is one."""
        torch, orders = self.build.torch, self.row_orders()
        words = words_of(self.op.get("qweight")).view("int32")
        nothing = torch.empty([self.experts, 0], dtype=torch.int32, device="cuda")
        self.sorted = nothing if orders is None else self.on_gpu("perm", torch.from_numpy(orders))
        self.g_idx = nothing
        if orders is not None:
            self.g_idx = self.on_gpu("g_idx", (torch.arange(self.k, dtype=torch.int32) // self.group).repeat(self.experts, 1))
        experts = [self.repack(b_q_weight=torch.from_numpy(words[e].copy()).cuda(), perm=self.sorted[e], size_k=self.k, size_n=self.n,
                               num_bits=self.bits, is_a_8bit=False) for e in range(self.experts)]
        self.w = self.on_gpu("qweight", torch.stack(experts))

    def zero_words(self):
        """moe_awq_to_marlin_zero_points"""
        import numpy

        zeros = in_columns(in_columns(self.zeros, SCALE_COLUMNS), ZERO_COLUMNS[self.bits])
        return self.build.torch.from_numpy(pack(zeros.astype(numpy.uint32), self.bits, 2).view("int32"))

    def call(self):
        attrs = self.op.attrs
        return self.op_of(a=self.a, c_or_none=self.c, b_q_weight=self.w, b_bias_or_none=self.bias, b_scales=self.scales, a_scales=None,
                          global_scale=None, b_zeros_or_none=self.zero, g_idx_or_none=self.g_idx, perm_or_none=self.sorted,
                          workspace=self.workspace, sorted_token_ids=self.sorted_token_ids, expert_ids=self.expert_ids,
                          num_tokens_past_padded=self.num_tokens_post_padded, topk_weights=self.topk_weights,
                          moe_block_size=attrs["block_size"], top_k=attrs["top_k"], mul_topk_weights=self.multiplies,
                          b_type_id=self.type_of_weights(), size_m=attrs["m"], size_n=self.n, size_k=self.k, is_full_k=True,
                          use_atomic_add=False, use_fp32_reduce=True, is_zp_float=False, thread_k=-1, thread_n=-1, blocks_per_sm=-1)


def blocks_of_wna16(rows, top_k, block_m, n, k, group):
    """BLOCK_SIZE_N and BLOCK_SIZE_K, as vLLM chooses them by default. How K is split decides how often the kernel rounds."""
    slots, block_n, block_k = rows * top_k, 128, max(128, group)
    of_m = (slots + block_m - 1) / block_m + n           # vLLM gives n for the number of experts
    of_m = min(of_m, slots) if rows <= block_m else of_m
    blocks = of_m * (k // block_k) * (n // block_k)
    if k % 256 == 0 and blocks >= 256 and block_k < 256:
        block_k = 256
    if of_m <= 16 and k % (2 * block_k) == 0 and block_k <= 512 and blocks >= 512:
        block_k, blocks = 2 * block_k, blocks // 2
    if blocks > 1024:
        block_n, blocks = 256, blocks // 2
    if n <= 1024 and blocks >= 1024:
        block_n = 1024
    fits = [size for size in range(min(block_k, k) // group * group, 0, -group) if k % size == 0]
    return block_n, fits[0]


class MoeWna16(Moe):
    """MoeWNA16Method. The operator sets C to zero and adds to it, by halves of C's type."""
    name, layout = "moe_wna16_gemm", "wna16"

    def __init__(self, build, op):
        super().__init__(build, op)
        self.refuse_unless(op.get("a").dtype in ("F16", "BF16"), "F16 and BF16")
        self.refuse_unless(op.attrs["block_size"] <= 64, "blocks of at most 64 slots")
        self.refuse_unless(not op.get("g_idx") and not op.get("bias"), "no act-order and no bias")
        self.block_n, self.block_k = blocks_of_wna16(op.attrs["m"], op.attrs["top_k"], op.attrs["block_size"], self.n, self.k, self.group)
        self.refuse_unless(self.block_k // self.group in (1, 2, 4, 8) and self.group * self.bits % 32 == 0, "groups of 32, 64 and 128")
        if self.multiplies:
            need(op, "topk_weights")
        self.rounding = self.weights_of_rounding()

    def in_bytes(self, numbers):
        """Neighbours along the second axis in a byte, the first in the low bits."""
        import numpy

        numbers = numbers.astype(numpy.uint8)
        return numbers if self.bits == 8 else numbers[:, ::2] | numbers[:, 1::2] << 4

    def load_weights(self):
        import numpy

        torch = self.build.torch
        words = numpy.ascontiguousarray(words_of(self.op.get("qweight")).transpose(0, 2, 1))
        scales = self.build.tensor(self.op.get("scales")).to(self.dtype)
        self.w = self.on_gpu("qweight", torch.from_numpy(words.view(numpy.uint8)))
        self.scales = self.on_gpu("scales", scales.transpose(1, 2).contiguous())
        self.zero = None
        if self.zeros is not None:
            self.zero = self.on_gpu("qzeros", torch.from_numpy(numpy.ascontiguousarray(self.in_bytes(self.zeros.transpose(0, 2, 1)))))

    def call(self):
        attrs = self.op.attrs
        self.op_of(input=self.a, output=self.c, b_qweight=self.w, b_scales=self.scales, b_qzeros=self.zero,
                   topk_weights=self.topk_weights if self.multiplies else None, sorted_token_ids=self.sorted_token_ids,
                   expert_ids=self.expert_ids, num_tokens_post_pad=self.num_tokens_post_padded, top_k=attrs["top_k"],
                   BLOCK_SIZE_M=attrs["block_size"], BLOCK_SIZE_N=self.block_n, BLOCK_SIZE_K=self.block_k, bit=self.bits)
        return self.c


MOE = [MoeMarlin, MoeWna16]
