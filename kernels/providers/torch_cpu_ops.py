"""torch_cpu_ops.py - how a vLLM for CPUs runs an op: which library, which kernel, which layout of weights.
SPDX-License-Identifier: Apache-2.0

What vLLM's Python would decide is decided here as vLLM 0.32 decides it; beside each rule stands the name
of the function that it comes from. Before a kernel is used, the number of its arguments is compared with
that of 0.32's."""
import importlib.util
import os
import platform

import torch_build
from torch_build import TD_EUNSUPPORTED, LoadError, Unsupported, need, words_of


# ---- the build ---------------------------------------------------------------------------------------------------------

class Build(torch_build.Build):
    """vLLM's library for this CPU."""

    def __init__(self, torch, folder):
        super().__init__(torch, folder)
        self.amx = cpu_has(torch, "_is_amx_tile_supported")
        if self.amx and hasattr(torch.cpu, "_init_amx"):
            torch.cpu._init_amx()  # Linux allows AMX once asked; cpu_gemm_wna16 does not ask, and dies of SIGILL
        self.max_threads = torch.get_num_threads()
        self.load_library(self.wanted_library(), "_C")  # as CpuPlatform.import_kernels; older releases have only _C
        self.words = f"vLLM {self.version()}, torch {torch.__version__}, {self.cpu()}, {self.library}"
        if not self.has("create_onednn_mm_handler", "cpu_gemm_wna16"):
            raise LoadError(TD_EUNSUPPORTED, f"{self.words}: has no CPU kernels of linear layers; is it a build for GPUs?")

    def start(self):
        return self.words

    def wanted_library(self):
        if platform.machine() != "x86_64" or (cpu_has(self.torch, "_is_avx512_supported") and
                                              cpu_has(self.torch, "_is_avx512_bf16_supported")):
            return "_C"
        return "_C_AVX512" if cpu_has(self.torch, "_is_avx512_supported") else "_C_AVX2"

    def cpu(self):
        return self.torch.backends.cpu.get_cpu_capability() + (" AMX" if self.amx else "")

    def kernel(self, name, n_args):
        if not self.has(name):
            raise Unsupported(f"{self.library} has no {name}: {self.why_missing()}")
        kernel = getattr(self.torch.ops._C, name).default
        found = len(kernel._schema.arguments)
        if found != n_args:
            raise Unsupported(f"{name} of this vLLM takes {found} arguments, the one that is known here (0.32) takes {n_args}")
        return kernel

    def why_missing(self):
        if platform.machine() == "x86_64" and not cpu_has(self.torch, "_is_avx512_supported"):
            return "vLLM has its 4-bit kernels for AVX-512 and AMX only, and this CPU has neither"
        return f"this build of vLLM is for {self.cpu()}"

    def threads(self, n):
        self.torch.set_num_threads(max(1, min(n, self.max_threads)))

    def plan(self, op):
        """Choose the kernel that will run this op. Raises Unsupported."""
        if os.environ.get("TD_OPERATOR"):
            raise Unsupported("TD_OPERATOR (--as): vLLM for CPUs has no operators to choose from")
        choose = {"gptq_gemm": choose_int4, "gemm": choose_linear}.get(op.kind)
        if not choose:
            raise Unsupported(f"vLLM's kernels run gptq_gemm and gemm here, no {op.kind}")
        return choose(self, op)


def cpu_has(torch, test):
    return bool(getattr(torch.cpu, test, lambda: False)())


class Plan(torch_build.Plan):
    def load_rows(self):
        """Make tensors for a and c. Kernels write dense rows; an output with gaps is written by fetch()."""
        self.a, self.c = self.build.tensor(self.op.get("a")), self.build.tensor(self.op.out)
        self.result = self.c if self.c.is_contiguous() else self.build.torch.empty(self.op.out.shape, dtype=self.c.dtype)
        bias = self.op.get("bias")
        self.bias = self.build.tensor(bias) if bias else None

    def fetch(self):
        if self.result is not self.c:
            self.c.copy_(self.result)


# ---- 4-bit weights -----------------------------------------------------------------------------------------------------

def check_int4(op):
    """CPUWNA16LinearKernel.can_implement and AutoGPTQConfig: 4 bits, symmetric, no act-order, K and N multiples of 32."""
    import numpy

    get = op.attrs.get
    qzeros, a = op.get("qzeros"), op.get("a")
    if get("bits") != 4:
        raise Unsupported(f"vLLM has no {get('bits')}-bit GPTQ kernel for CPUs, only 4-bit")
    if get("k", 0) % 32 or get("n", 0) % 32 or get("group_size", 1) % 2:
        raise Unsupported("vLLM's 4-bit kernels take K and N that are multiples of 32, and even groups; "
                          f"here K {get('k')}, N {get('n')}, groups of {get('group_size')}")
    if qzeros and (words_of(qzeros) != 0x11111111 * (8 - get("zero_offset", 1))).any():
        raise Unsupported("vLLM takes symmetric GPTQ checkpoints only: not all zero points are 8")
    g_idx = op.get("g_idx")
    if g_idx and (words_of(g_idx) != numpy.arange(get("k")) // get("group_size")).any():
        raise Unsupported("vLLM's CPU kernels have no act-order")
    if a.dtype not in ("BF16", "F16"):
        raise Unsupported(f"vLLM's 4-bit kernels take BF16 and F16 activations, no {a.dtype}")


def choose_int4(build, op):
    """CPUWNA16LinearKernel.process_weights_after_loading."""
    a, _, _ = need(op, "a", "qweight", "scales")
    check_int4(op)
    riscv = platform.machine().startswith("riscv")
    if bool(int(os.getenv("VLLM_CPU_INT4_W4A8", "1"))) and a.dtype == "BF16" and (build.amx or riscv):
        return Int4W4A8(build, op)
    return Int4W4A16(build, op)


def unpack_rows(qweight):
    """Unpack [k/8, n], eight values along k in a word, into [k, n] uint8."""
    import numpy

    out = numpy.empty((qweight.shape[0], 8, qweight.shape[1]), dtype=numpy.uint8)
    for i in range(8):
        out[:, i] = qweight >> numpy.uint32(4 * i) & numpy.uint32(15)
    return out.reshape(-1, qweight.shape[1])


def pack_columns(w, order):
    """Pack [k, n] into [k, n/8] int32; the i-th nibble of a word is column order[i] of its eight."""
    import numpy

    eights = w.reshape(w.shape[0], -1, 8)
    out = numpy.zeros(eights.shape[:2], dtype=numpy.uint32)
    for i, column in enumerate(order):
        out |= eights[:, :, column].astype(numpy.uint32) << numpy.uint32(4 * i)
    return out.view(numpy.int32)


class Int4(Plan):
    def load(self):
        self.load_rows()
        self.scales = self.build.tensor(self.op.get("scales")).to(self.a.dtype)  # the loader copies into the model's type
        return unpack_rows(words_of(self.op.get("qweight")))


class Int4W4A8(Int4):
    """int4_scaled_mm_cpu: rounds each row of a to uint8; CPUWNA16LinearKernel._process_gptq_weights_w4a8."""
    rounding = "uint8-token"

    def __init__(self, build, op):
        super().__init__(build, op)
        self.convert = build.kernel("convert_weight_packed_scale_zp", 4)
        self.mm = build.kernel("int4_scaled_mm_cpu", 5)

    def prepare(self):
        import numpy

        torch, awq = self.build.torch, 0
        weight = pack_columns(self.load(), (0, 2, 4, 6, 1, 3, 5, 7))
        zeros = numpy.full((self.scales.shape[0], weight.shape[1]), 0x88888888, dtype=numpy.uint32).view(numpy.int32)
        self.w, self.zeros, self.w_scales = self.convert(torch.from_numpy(weight), torch.from_numpy(zeros),
                                                         self.scales.contiguous(), awq)
        if self.bias is not None:
            self.bias = self.bias.to(torch.float32)

    def run(self):
        self.result = self.mm(self.a, self.w, self.zeros, self.w_scales, self.bias)


class Int4W4A16(Int4):
    """cpu_gemm_wna16: rounds the dequantised weights to a's type; CPUWNA16LinearKernel._process_gptq_weights_w4a16 and
    _get_isa_hint."""

    def __init__(self, build, op):
        super().__init__(build, op)
        self.mm = build.kernel("cpu_gemm_wna16", 8)
        bf16 = op.get("a").dtype == "BF16"
        self.rounding = "weight-bf16" if bf16 else "weight-f16"
        other = {"riscv64": "rvv", "ppc64le": "vsx" if bf16 else "vec"}
        self.isa = "amx" if build.amx and bf16 else other.get(platform.machine(), "vec")

    def prepare(self):
        import numpy

        weight = pack_columns(self.load(), range(8))
        k = weight.shape[0]
        blocks = numpy.ascontiguousarray(weight.reshape(k, -1, 2).transpose(1, 0, 2).reshape(-1, k * 2))
        self.w = self.build.torch.from_numpy(blocks)
        if self.bias is not None:
            self.bias = self.bias.to(self.a.dtype)

    def run(self):
        self.mm(self.a, self.w, self.result, self.scales, None, self.bias, 8, self.isa)


# ---- weights as they are -----------------------------------------------------------------------------------------------

SGL_MAX_WEIGHT_BYTES = 1 << 20


def sgl_takes(build, n, k, dtype):
    """check_cpu_sgl_kernel of model_executor/layers/utils.py, for the types that a gemm op has."""
    if not build.amx or dtype not in ("BF16", "F16") or n * k * 2 > SGL_MAX_WEIGHT_BYTES:
        return False
    if dtype == "F16" and not cpu_has(build.torch, "_is_amx_fp16_supported"):
        return False
    return n < 16 or (k % 32 == 0 and n % 16 == 0)


def choose_linear(build, op):
    """dispatch_cpu_unquantized_gemm of model_executor/layers/utils.py."""
    a, w = need(op, "a", "w")
    if op.attrs.get("trans_b", 1) != 1:
        raise Unsupported("vLLM's linear layers have their weights as [n, k]; this op's are transposed")
    if len(a.shape) != 2 or len(w.shape) != 2 or a.dtype != w.dtype or a.dtype != op.out.dtype:
        raise Unsupported("vLLM's linear layers take matrices a and w of one type")
    if importlib.util.find_spec("zentorch"):
        raise Unsupported("zentorch is installed beside this vLLM; its kernels of linear layers are not known here")
    return SglLinear(build, op) if sgl_takes(build, w.shape[0], w.shape[1], w.dtype) else OneDnnLinear(build, op)


class SglLinear(Plan):
    """weight_packed_linear: small layers on AMX."""

    def __init__(self, build, op):
        super().__init__(build, op)
        self.convert = build.kernel("convert_weight_packed", 1)
        self.mm = build.kernel("weight_packed_linear", 5)

    def prepare(self):
        self.load_rows()
        self.w = self.convert(self.build.tensor(self.op.get("w")))
        if self.bias is not None:
            self.bias = self.bias.to(self.build.torch.float32)

    def run(self):
        self.mm(self.result, self.a, self.w, self.bias, True)


class OneDnnLinear(Plan):
    """onednn_mm; where oneDNN refuses the weights vLLM falls back to torch's linear, and so does this."""
    CACHE = 32

    def __init__(self, build, op):
        super().__init__(build, op)
        self.create = build.kernel("create_onednn_mm_handler", 2)
        self.mm = build.kernel("onednn_mm", 4)
        self.free = build.kernel("release_dnnl_matmul_handler", 1)
        self.handler = None

    def prepare(self):
        torch = self.build.torch
        self.load_rows()
        self.w = self.build.tensor(self.op.get("w"))
        try:
            self.handler = torch.tensor(self.create(self.w.t(), self.CACHE), dtype=torch.int64)
        except RuntimeError:
            self.run = self.run_torch

    def run(self):
        self.mm(self.result, self.a, self.bias, self.handler)

    def run_torch(self):
        self.result = self.build.torch.nn.functional.linear(self.a, self.w, self.bias)

    def __del__(self):
        if self.handler is not None:
            self.free(self.handler.item())
