"""torch_gpu_ops.py - how a vLLM for GPUs runs an op: which operator, with its weights in which layout.
SPDX-License-Identifier: Apache-2.0

The recorded weights are those of the checkpoint. The build's own operators bring them into the layout that
they read, so that another version of vLLM, with other layouts, can be held against an old recording. Beside
each rule stands the class of vLLM 0.26 that it comes from (model_executor/kernels/linear/mixed_precision).
Operators are called by the argument names of their schemas: one that lacks a name, or wants one that is not
known here, is refused by name."""
import importlib.util
import os
import random

import torch_build
from torch_build import ALL_OF_K, TD_EUNSUPPORTED, LoadError, Unsupported, half_sums, need, with_bias_after, words_of

MARGIN = 1 << 16                         # bytes around a tensor on the GPU that nobody may write to; a NaN in any type
SWEEP = 1 << 28                          # bytes: more than the L2 of any GPU
CALLS = 16                               # of the operator in a CUDA graph that is timed


# ---- the build ---------------------------------------------------------------------------------------------------------

class Build(torch_build.Build):
    """vLLM's library for GPUs."""
    on_gpu = True

    def __init__(self, torch, folder):
        super().__init__(torch, folder)
        self.load_library("_C_stable_libtorch", "_C")
        self.types = load_scalar_types(folder)
        self.sweep = self.spacer = None

    def start(self):
        torch = self.torch
        if not torch.cuda.is_available():
            raise LoadError(TD_EUNSUPPORTED, f"vLLM {self.version()}, torch {torch.__version__} is for GPUs, and torch finds none here")
        return (f"vLLM {self.version()}, torch {torch.__version__}, {torch.cuda.get_device_name(0)}, {self.library}")

    def plan(self, op):
        if op.kind == "gemm":
            return Linear(self, op)
        if op.kind == "moe_gemm":
            from torch_moe_ops import choose_moe

            return choose_moe(self, op)
        if op.kind == "scaled_mm":
            from torch_scaled_ops import ScaledMM

            return ScaledMM(self, op)
        if op.kind == "moe_scaled_mm":
            from torch_scaled_ops import MoeScaledMM

            return MoeScaledMM(self, op)
        if op.kind != "gptq_gemm":
            import torch_beside_ops
            import torch_layout_ops

            kinds = {**torch_beside_ops.KINDS, **torch_layout_ops.KINDS}
            if op.kind not in kinds:
                raise Unsupported(f"vLLM's operators run gptq_gemm, moe_gemm, scaled_mm, moe_scaled_mm, gemm, {', '.join(kinds)} here, no {op.kind}")
            return kinds[op.kind](self, op)
        return choose_quantised(self, op)

    def renew(self):
        """Give back all memory of the GPU, so that what comes lies elsewhere."""
        self.sweep = self.spacer = None
        self.torch.cuda.empty_cache()
        self.spacer = self.torch.empty([random.randrange(1, 1 << 26)], dtype=self.torch.uint8, device="cuda")

    def is_lost(self, error):
        """Has the error left this process without its GPU?"""
        return "CUDA error" in str(error) or "HIP error" in str(error)

    def operator(self, name, namespace="_C"):
        operators = getattr(self.torch.ops, namespace)
        if not hasattr(operators, name):
            raise Unsupported(f"{self.library} has no operator {name}")
        return Operator(name, getattr(operators, name).default)

    def operator_of(self, namespace, name):
        """An operator of another of vLLM's libraries, which is loaded when it is first needed."""
        own = self.library
        try:
            self.load_library(namespace + "_stable_libtorch", namespace)
        except LoadError as e:
            raise Unsupported(f"{name}: {e}")
        finally:
            self.library = own
        operators = getattr(self.torch.ops, namespace)
        if not hasattr(operators, name):
            raise Unsupported(f"{namespace} of this vLLM has no operator {name}")
        return Operator(name, getattr(operators, name).default)

    def make_cold(self):
        """Push what the GPU has cached out of its L2."""
        if self.sweep is None:
            self.sweep = self.torch.empty([SWEEP], dtype=self.torch.uint8, device="cuda")
        self.sweep.zero_()


def load_scalar_types(folder):
    """vllm.scalar_type of the build: the ids of quantised types. The module imports nothing of vLLM."""
    path = os.path.join(folder, "scalar_type.py")
    spec = importlib.util.spec_from_file_location("tapedeck_scalar_type", path)
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.scalar_types
    except (OSError, ImportError, AttributeError) as e:
        raise LoadError(TD_EUNSUPPORTED, f"{path}: {e}; its types are needed to call vLLM's operators")


class Operator:
    """An operator of torch, called by the names of its schema."""

    def __init__(self, name, call):
        self.name, self.call, self.arguments = name, call, call._schema.arguments

    def __call__(self, **values):
        given = [a for a in self.arguments if a.name in values]
        for name, value in values.items():
            if value is not None and all(a.name != name for a in self.arguments):
                raise Unsupported(f"{self.name} of this vLLM has no argument {name}")
        for a in self.arguments:
            if a.name not in values and not a.has_default_value() and not str(a.type).startswith("Optional"):
                raise Unsupported(f"{self.name} of this vLLM wants {a.name}, which is not known here")
        missing = {a.name: None for a in self.arguments if a not in given and not a.has_default_value()}
        return self.call(**{a.name: values[a.name] for a in given}, **missing)


class Guarded:
    """A copy of a tensor on the GPU, between margins that hold a pattern, and a copy of that: what a kernel wrote there,
    or in its inputs, is found. Reading beyond the tensor gives NaN. x: dense, column after column where the tensor is."""

    def __init__(self, torch, tensor):
        by_columns = not tensor.is_contiguous() and tensor.dim() == 2 and tensor.t().is_contiguous()
        x = tensor.t() if by_columns else tensor.contiguous()
        n = x.numel() * x.element_size()
        self.torch = torch
        self.all = torch.full([n + 2 * MARGIN + -n % 256], 0xFF, dtype=torch.uint8, device="cuda")
        self.x = self.all[MARGIN:MARGIN + n].view(x.dtype).view(x.shape)
        self.x.copy_(x)
        self.x = self.x.t() if by_columns else self.x
        self.copy = self.all.clone()

    def changed(self):
        return not self.torch.equal(self.all, self.copy)


# ---- plans -------------------------------------------------------------------------------------------------------------

class Plan(torch_build.Plan):
    """Subclasses have prepare(), which fills `given` by on_gpu(), and call(), which returns C."""

    def __init__(self, build, op):
        super().__init__(build, op)
        self.given, self.pattern, self.graphs = {}, None, {}
        self.compiles = f"{self.name} {op.get('a').dtype} {op.attrs.get('bits', 16)}" if op.get("a") else ""

    def on_gpu(self, role, x):
        """A guarded copy of tensor x, under the name by which a report calls it."""
        self.given[role] = Guarded(self.build.torch, x)
        return self.given[role].x

    def load(self, role):
        """Input `role` of the op on the GPU, dense; None: the op has none."""
        t = self.op.get(role)
        return self.on_gpu(role, self.build.tensor(t)) if t else None

    def poison(self, pattern):
        torch = self.build.torch
        self.pattern = torch.frombuffer(bytearray(pattern), dtype=torch.uint8)

    def run(self):
        self.result = self.call() if self.pattern is None else self.call_on_poison()

    def call_on_poison(self):
        """Call the operator so that the memory that it allocates for C holds the pattern. torch gives the block that
        was freed last to who asks for its size; where it gives another, that one is held and it is asked again."""
        torch, held = self.build.torch, []
        dtype = self.build.dtypes[self.op.out.dtype]
        for _ in range(8):
            block = torch.empty(self.result_shape(), dtype=dtype, device="cuda")
            flat = block.view(-1).view(torch.uint8)
            flat.view(-1, len(self.pattern)).copy_(self.pattern)
            where = block.data_ptr()
            del block, flat
            result = self.call()
            if result.data_ptr() == where:
                break
            held.append(result)
        return result

    def result_shape(self):
        """Of what call() returns."""
        return self.op.out.shape

    def fetch(self):
        out = self.build.tensor(self.op.out)
        self.build.torch.cuda.synchronize()
        if list(self.result.shape) != self.op.out.shape or self.result.dtype != out.dtype:
            raise RuntimeError(f"the operator returned {list(self.result.shape)} of {self.result.dtype}")
        out.copy_(self.result)
        written = [role for role, g in self.given.items() if g.changed()]
        return f"wrote into or beside its input {written[0]}" if written else None

    def graph(self, calls):
        """A CUDA graph of so many calls: launched as vLLM launches it, without Python between the calls."""
        torch = self.build.torch
        if calls not in self.graphs:
            self.pattern = None
            self.call()                      # what it sets up must not be captured
            torch.cuda.synchronize()
            self.graphs[calls] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graphs[calls]):
                for _ in range(calls):
                    self.call()
        return self.graphs[calls]

    def time(self, iterations, make_cold):
        if make_cold:
            one = self.graph(1)
            return sum(self.elapsed([one], self.build.make_cold) for _ in range(iterations))
        many, rest = divmod(iterations, CALLS)
        return self.elapsed([self.graph(CALLS)] * many + [self.graph(1)] * rest, None)

    def elapsed(self, graphs, before):
        """Nanoseconds that the GPU takes for these graphs, after before()."""
        cuda = self.build.torch.cuda
        start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        if before:
            before()
        start.record()
        for g in graphs:
            g.replay()
        end.record()
        end.synchronize()
        return int(start.elapsed_time(end) * 1e6)


class Linear(Plan):
    """torch.nn.functional.linear, which asks cuBLAS: UnquantizedLinearMethod."""
    name = "linear"

    def __init__(self, build, op):
        super().__init__(build, op)
        a, w = need(op, "a", "w")
        if op.attrs.get("trans_b", 1) != 1:
            raise Unsupported("vLLM's linear layers have their weights as [n, k]; this op's are transposed")
        if len(a.shape) != 2 or len(w.shape) != 2 or a.dtype != w.dtype or a.dtype != op.out.dtype:
            raise Unsupported("vLLM's linear layers take matrices a and w of one type")

    def prepare(self):
        self.a, self.w, self.bias = self.load("a"), self.load("w"), self.load("bias")

    def call(self):
        return self.build.torch.nn.functional.linear(self.a, self.w, self.bias)


# ---- 4 and 8 bits ------------------------------------------------------------------------------------------------------

def choose_quantised(build, op):
    """The operator that was recorded, where the recording names one that is known, else the first that takes the op, in
    vLLM's order. TD_OPERATOR=NAME (--build-env) asks for another of the same meaning."""
    need(op, "a", "qweight", "scales", "qzeros")
    from torch_allspark_ops import AllSpark
    from torch_awq_ops import AwqDequantized, AwqGemm

    # _POSSIBLE_KERNELS of kernels/linear/__init__.py, in vLLM's order; then what AWQ falls back to
    known = [Machete, AllSpark, Marlin, Exllama, AwqGemm, AwqDequantized]
    wanted, why = os.environ.get("TD_OPERATOR", ""), ""
    if wanted and wanted not in (c.name for c in known):
        raise Unsupported(f"TD_OPERATOR={wanted}: no such operator is known here; there are {', '.join(c.name for c in known)}")
    by_name = [c for c in known if c.name in op.symbol.split("::")]
    recorded = by_name or [c for c in known if c.layout == op.layout]
    for c in [c for c in known if c.name == wanted] if wanted else recorded or known:
        try:
            plan = c(build, op)
            if op.get("bias"):               # Marlin adds it to the rounded product, vLLM does after the others
                plan.rounding = with_bias_after(plan.rounding)
            return plan
        except Unsupported as e:
            why = why or str(e)
    raise Unsupported(why)


class Quantised(Plan):
    """An op of kind gptq_gemm. zeros: the zero points [groups, n]; None: all are half of the range."""

    def __init__(self, build, op):
        super().__init__(build, op)
        self.op_of = build.operator(self.name)
        self.bits, self.k, self.n = op.attrs["bits"], op.attrs["k"], op.attrs["n"]
        self.group = op.attrs["group_size"]
        self.groups = self.k // self.group
        self.dtype = build.dtypes.get(op.get("a").dtype)
        self.zeros = zero_points(op)
        self.perm = row_order(op)            # rows of W in the order of their groups; None: they lie so
        if op.act_rounding == "uint8-token":
            raise Unsupported("no operator of vLLM for GPUs rounds activations to 8 bits, as this op's did")

    def refuse_unless(self, ok, what):
        if not ok:
            raise Unsupported(f"{self.name} takes {what}; here {self.op.get('a').dtype}, {self.bits} bits, K {self.k}, N {self.n}, "
                              f"groups of {self.group}{', act-order' if self.perm is not None else ''}")

    def rounds_weights(self, how="weight"):
        return f"{how}-{self.op.get('a').dtype.lower()}"

    def type_of_weights(self):
        """The id by which vLLM names the type of W."""
        types = self.build.types
        plain, biased = (types.uint4, types.uint4b8) if self.bits == 4 else (types.uint8, types.uint8b128)
        return (biased if self.zeros is None else plain).id

    def load_scales(self):
        """[groups, n] in A's type, on the CPU: the loader copies them so into the model."""
        return self.build.tensor(self.op.get("scales")).to(self.dtype).contiguous()

    def add_bias(self, c):
        return c if self.bias is None else c.add_(self.bias)


def unpack(words, bits, axis):
    """The numbers in words of 32 bits, first ones lowest, along an axis, as uint32."""
    import numpy

    each = numpy.stack([words >> numpy.uint32(bits * i) & numpy.uint32((1 << bits) - 1) for i in range(32 // bits)], axis + 1)
    shape = list(words.shape)
    shape[axis] *= 32 // bits
    return each.reshape(shape)


def pack(numbers, bits, axis):
    import numpy

    per_word = 32 // bits
    shape = list(numbers.shape)
    shape[axis:axis + 1] = [shape[axis] // per_word, per_word]
    parts = numpy.moveaxis(numbers.reshape(shape), axis + 1, 0)
    words = numpy.zeros(parts.shape[1:], dtype=numpy.uint32)
    for i in range(per_word):
        words |= parts[i].astype(numpy.uint32) << numpy.uint32(bits * i)
    return words


def zero_points(op):
    zeros = unpack(words_of(op.get("qzeros")), op.attrs["bits"], len(op.get("qzeros").shape) - 1) + op.attrs.get("zero_offset", 1)
    had_zeros = op.act_rounding.startswith("zero-")       # the recorded kernel was given them
    return None if not had_zeros and (zeros == 1 << (op.attrs["bits"] - 1)).all() else zeros


def row_order(op):
    """marlin_sort_g_idx. None: the rows lie in the order of their groups."""
    import numpy

    t = op.get("g_idx")
    if not t:
        return None
    g_idx, in_order = words_of(t), numpy.arange(op.attrs["k"]) // op.attrs["group_size"]
    order = numpy.argsort(g_idx, kind="stable").astype(numpy.int32)
    if (g_idx == in_order).all():
        return None
    if (g_idx[order] != in_order).any():
        raise Unsupported("the groups of this op have different numbers of rows, as a rank's slice has with act-order")
    return order


class Machete(Quantised):
    """MacheteLinearKernel. A's columns are sorted before it is called (permute_cols), which is not timed here."""
    name, layout = "machete_mm", "machete"

    def __init__(self, build, op):
        super().__init__(build, op)
        self.prepack = build.operator("machete_prepack_B")
        self.refuse_unless(op.get("a").dtype in ("F16", "BF16") and self.k % 64 == 0 and self.n % 128 == 0,
                           "F16 and BF16, K that are multiples of 64 and N of 128")
        self.rounding = self.rounds_weights("weight" if self.zeros is None else "zero")

    def prepare(self):
        torch, words, a = self.build.torch, words_of(self.op.get("qweight")), self.build.tensor(self.op.get("a"))
        if self.perm is not None:
            words = pack(unpack(words, self.bits, 0)[self.perm], self.bits, 0)
            a = a[:, torch.from_numpy(self.perm)]
        scales = self.load_scales()
        self.a, self.scales, self.bias = self.on_gpu("a", a), self.on_gpu("scales", scales), self.load("bias")
        w = torch.from_numpy(words.view("int32")).cuda()
        self.w = self.on_gpu("qweight", self.prepack(B=w.t().contiguous().t(), a_type=self.dtype, b_type=self.type_of_weights(),
                                                     group_scales_type=self.dtype))
        self.zero = None
        if self.zeros is not None:
            zeros = torch.from_numpy(self.zeros.astype("float32")).to(self.dtype)
            self.zero = self.on_gpu("qzeros", -1.0 * scales * zeros)

    def call(self):
        return self.add_bias(self.op_of(A=self.a, B=self.w, b_type=self.type_of_weights(), out_type=None, group_scales=self.scales,
                                        group_zeros=self.zero, group_size=-1 if self.groups == 1 else self.group,
                                        channel_scales=None, token_scales=None, schedule=None))


SCALE_COLUMNS = [i + 8 * j for i in range(8) for j in range(8)]        # get_scale_perms
SCALE_COLUMNS_ONE_GROUP = [2 * i + j for i in range(4) for j in (0, 1, 8, 9, 16, 17, 24, 25)]
ZERO_COLUMNS = {4: [0, 2, 4, 6, 1, 3, 5, 7], 8: [0, 2, 1, 3]}           # marlin_zero_points


def in_columns(x, order):
    """Each run of len(order) columns of x [rows, n] in that order. x: a tensor or an array."""
    return x.reshape(-1, len(order))[:, order].reshape(x.shape)


class Marlin(Quantised):
    """MarlinLinearKernel: sizes that are no multiples of its tiles are padded with zeros (marlin_padded_nk)."""
    name, layout = "marlin_gemm", "marlin"

    def __init__(self, build, op):
        super().__init__(build, op)
        self.repack = build.operator("gptq_marlin_repack")
        self.refuse_unless(op.get("a").dtype in ("F16", "BF16"), "F16 and BF16")
        self.refuse_unless(self.is_tiled() or self.perm is None, "act-order for K that are multiples of 128 and N of 64")
        self.padded_n, self.padded_k = self.padded_sizes()
        if self.groups > 1:
            self.rounding = self.rounds_weights()

    def is_tiled(self):
        return (self.n % 64 == 0 and self.k % 128 == 0) or (self.n % 128 == 0 and self.k % 64 == 0)

    def padded_sizes(self):
        import math

        group = self.group if self.groups > 1 else 1
        sizes = [(-(-self.n // n) * n, -(-self.k // math.lcm(k, group)) * math.lcm(k, group)) for n, k in ((64, 128), (128, 64))]
        return min(sizes, key=lambda nk: (nk[0] * nk[1], nk[0] + nk[1]))

    def padded(self, x, rows):
        """Array or CPU tensor x [., n] with zeros, as [rows, padded_n]."""
        torch = self.build.torch
        return torch.nn.functional.pad(x, (0, self.padded_n - x.shape[1], 0, rows - x.shape[0]))

    def prepare(self):
        torch, a = self.build.torch, self.build.tensor(self.op.get("a"))
        groups = self.padded_k // self.group if self.groups > 1 else 1
        nothing = torch.empty([0], dtype=torch.int32, device="cuda")
        words = torch.from_numpy(words_of(self.op.get("qweight")).view("int32"))
        order = SCALE_COLUMNS if self.groups > 1 else SCALE_COLUMNS_ONE_GROUP
        self.a = self.on_gpu("a", torch.nn.functional.pad(a, (0, self.padded_k - self.k)))
        self.scales = self.on_gpu("scales", in_columns(self.padded(self.load_scales(), groups), order))
        self.sorted = nothing if self.perm is None else self.on_gpu("perm", torch.from_numpy(self.perm))
        self.g_idx = nothing if self.perm is None else self.on_gpu("g_idx", torch.arange(self.k, dtype=torch.int32) // self.group)
        self.w = self.on_gpu("qweight", self.repack(b_q_weight=self.padded(words, self.padded_k * self.bits // 32).cuda(), perm=self.sorted,
                                                    size_k=self.padded_k, size_n=self.padded_n, num_bits=self.bits, is_a_8bit=False))
        self.zero = nothing if self.zeros is None else self.on_gpu("qzeros", self.zero_words(groups))
        self.bias = self.load_bias()
        self.workspace = torch.zeros([torch.cuda.get_device_properties(0).multi_processor_count], dtype=torch.int32, device="cuda")

    def zero_words(self, groups):
        import numpy

        torch = self.build.torch
        zeros = self.padded(torch.from_numpy(self.zeros.astype("int32")), groups).numpy()
        zeros = in_columns(in_columns(zeros, SCALE_COLUMNS), ZERO_COLUMNS[self.bits])
        return torch.from_numpy(pack(zeros.astype(numpy.uint32), self.bits, 1).view("int32"))

    def load_bias(self):
        """marlin_permute_bias"""
        bias = self.op.get("bias")
        if not bias:
            return None
        bias = self.build.torch.nn.functional.pad(self.build.tensor(bias).to(self.dtype), (0, self.padded_n - self.n))
        return self.on_gpu("bias", in_columns(bias, SCALE_COLUMNS_ONE_GROUP))

    def call(self):
        c = self.op_of(a=self.a, c_or_none=None, b_q_weight=self.w, b_bias_or_none=self.bias, b_scales=self.scales, a_scales=None,
                       global_scale=None, b_zeros_or_none=self.zero, g_idx_or_none=self.g_idx, perm_or_none=self.sorted,
                       workspace=self.workspace, b_type_id=self.type_of_weights(), size_m=self.a.shape[0], size_n=self.padded_n,
                       size_k=self.padded_k, is_k_full=True, use_atomic_add=False, use_fp32_reduce=True, is_zp_float=False)
        return c if self.padded_n == self.n else c[:, :self.n]


class Exllama(Quantised):
    """ExllamaLinearKernel. Many rows are multiplied by cuBLAS with weights rounded to float16 (q_gemm.cu,
    MAX_Q_GEMM_ROWS, cublasHgemm): in halves, of which a tensor core adds 16 products at a time. For fewer it adds in halves,
    by blocks of BLOCK_KN_SIZE rows of W."""
    name, layout = "gptq_gemm", "exllama"
    MOST_ROWS, BLOCK, TENSOR_CORE = {4: 50, 8: 24}, 128, 16

    def __init__(self, build, op):
        super().__init__(build, op)
        self.shuffle = build.operator("gptq_shuffle")
        self.refuse_unless(op.get("a").dtype == "F16", "F16")
        if op.attrs["m"] > self.MOST_ROWS[self.bits]:
            self.rounding, self.half_sums = self.rounds_weights(), half_sums(ALL_OF_K, step=self.TENSOR_CORE)
        else:
            self.half_sums = half_sums(self.BLOCK, step=8) if self.bits == 8 else half_sums(self.BLOCK, eights=True)
            self.varies = True

    def prepare(self):
        torch = self.build.torch
        self.a, self.scales, self.bias = self.load("a"), self.on_gpu("scales", self.load_scales()), self.load("bias")
        self.order = torch.empty([0], dtype=torch.int32, device="cuda") if self.perm is None else self.on_gpu("perm", torch.from_numpy(self.perm))
        w = torch.from_numpy(words_of(self.op.get("qweight")).view("int32")).cuda().contiguous()
        self.shuffle(q_weight=w, q_perm=self.order, bit=self.bits)
        self.w = self.on_gpu("qweight", w)
        self.zero = self.on_gpu("qzeros", torch.from_numpy(words_of(self.op.get("qzeros")).view("int32")))

    def call(self):
        return self.add_bias(self.op_of(a=self.a, b_q_weight=self.w, b_gptq_qzeros=self.zero, b_gptq_scales=self.scales, b_g_idx=self.order,
                                        use_exllama=True, use_v2_format=self.op.attrs.get("zero_offset", 1) == 0, bit=self.bits))
