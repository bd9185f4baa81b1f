"""torch_build.py - vLLM's library of kernels in a Python with torch: found, loaded, its operators called by name.
SPDX-License-Identifier: Apache-2.0

Importing vLLM's Python takes ten seconds and more, so only its library is loaded. What vLLM's Python would
decide is decided by torch_cpu_ops.py and torch_gpu_ops.py. Needs numpy and torch."""
import ctypes
import glob
import importlib.util
import os
import re
import time

TD_EINVAL, TD_ENOTFOUND, TD_EUNSUPPORTED = -3, -9, -10


class LoadError(Exception):
    """There is no build to run. code: an enum td_code."""

    def __init__(self, code, sentence):
        super().__init__(sentence)
        self.code = code


class Unsupported(Exception):
    """vLLM cannot run this op here; the sentence is the reason."""


# ---- the build ---------------------------------------------------------------------------------------------------------

def import_torch():
    try:
        import torch
    except ImportError as e:
        raise LoadError(TD_ENOTFOUND, f"this Python cannot import torch ({e}); --build wants the Python of the venv with vLLM")
    return torch


def find_vllm():
    """The folder of the package, which is not imported."""
    spec = importlib.util.find_spec("vllm")
    if not spec or not spec.submodule_search_locations:
        raise LoadError(TD_ENOTFOUND, "this Python has no vllm; --build wants the Python of the venv with vLLM")
    return list(spec.submodule_search_locations)[0]


def open_build():
    """The build of this Python: for GPUs where its torch is, else for this CPU. Nothing here may start CUDA, which a
    fork does not survive."""
    import torch_cpu_ops
    import torch_gpu_ops
    import torch_own_ops

    torch, own = import_torch(), torch_own_ops.rows_given()
    version = getattr(torch, "version", None)
    on_gpu = version and (version.cuda or version.hip)
    if own and not on_gpu:
        raise LoadError(TD_EUNSUPPORTED, f"the operators of --ops run on a GPU, and this Python's torch {torch.__version__} is for CPUs")
    if own:
        return torch_own_ops.Build(torch, find_vllm() if importlib.util.find_spec("vllm") else None, own)
    folder = find_vllm()
    return torch_gpu_ops.Build(torch, folder) if on_gpu else torch_cpu_ops.Build(torch, folder)


class Build:
    """vLLM's library, loaded into this process. on_gpu: it has renew(), in the place of a new process."""
    on_gpu = False

    def __init__(self, torch, folder):
        self.torch, self.folder = torch, folder
        self.dtypes = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I32": torch.int32, "I64": torch.int64,
                       "I8": torch.int8}
        eight_bits = {"F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}   # an older torch has none
        self.dtypes.update((name, getattr(torch, its)) for name, its in eight_bits.items() if hasattr(torch, its))
        self.library, self.compiled = "", set()

    def start(self):
        """In the process that will run ops. Returns a description of the build, for reports. Raises LoadError."""
        raise NotImplementedError

    def plan(self, op):
        """Choose the kernel that will run this op. Raises Unsupported."""
        raise NotImplementedError

    def threads(self, n):
        """Compute on as many threads as there are CPUs."""

    def is_lost(self, error):
        """Has the error left this process useless? Then another is started."""
        return False

    def load_library(self, *names):
        """Load the first library of these names that is there."""
        for name in names:
            for path in sorted(glob.glob(os.path.join(self.folder, name + ".*so"))):
                try:
                    self.torch.ops.load_library(path)
                except OSError as e:
                    raise LoadError(TD_EUNSUPPORTED, f"{path}: {e}")
                self.library = os.path.basename(path)
                return
        raise LoadError(TD_ENOTFOUND, f"{self.folder} has no {names[-1]} library; this vLLM was installed without its kernels")

    def version(self):
        try:
            with open(os.path.join(self.folder, "_version.py")) as f:
                return re.search(r"__version__ = .*?'([^']*)'", f.read()).group(1)
        except (OSError, AttributeError):
            return "(unknown version)"

    def has(self, *names):
        return any(hasattr(self.torch.ops._C, n) for n in names)

    def tensor(self, t):
        """A torch tensor over the memory of t."""
        if t.dtype not in self.dtypes:
            raise Unsupported(f"{t.role}: no kernel for {t.dtype}")
        dtype = self.dtypes[t.dtype]
        if not t.size:
            return self.torch.empty(t.shape, dtype=dtype)
        flat = self.torch.frombuffer((ctypes.c_char * t.size).from_address(t.data), dtype=dtype)
        return flat.as_strided(t.shape, t.strides)


def words_of(t):
    """An I32 or U32 tensor as numpy's uint32, dense."""
    import numpy

    if t.dtype not in ("I32", "U32"):
        raise Unsupported(f"{t.role}: {t.dtype} where a checkpoint has I32")
    flat = numpy.frombuffer((ctypes.c_char * t.size).from_address(t.data), dtype=numpy.uint32)
    return numpy.lib.stride_tricks.as_strided(flat, t.shape, [4 * s for s in t.strides])


def need(op, *roles):
    for role in roles:
        if not op.get(role):
            raise Unsupported(f"{op.kind} without {role}")
    return [op.get(role) for role in roles]


def with_bias_after(rounding):
    """What it declares when a bias is added to a product that was rounded before."""
    return "bias-after" if rounding == "none" else rounding + "+bias-after"


ALL_OF_K = 0xffff


def half_sums(block, step=0, eights=False):
    """How a kernel keeps its sums in halves, in the one number of kernels/ops/half_sums.h, which explains the three."""
    return block | step << 16 | eights << 24


class Plan:
    """One op, ready to be prepared and run. rounding: what the kernel declares that it rounds, in the words
    of docs/format.md. compiles: what the kernel's code is known by, if the driver may compile it at its first launch;
    "": it does not. half_sums: how the kernel keeps its sums in halves, by half_sums(); 0: it keeps them in float32. varies: it adds
    to its output in any order, so no two runs give the same bits."""
    rounding, compiles, half_sums, varies = "none", "", 0, False

    def __init__(self, build, op):
        self.build, self.op = build, op

    def prepare(self):
        """Load the op's tensors, in the layout that the kernel reads."""

    def poison(self, pattern):
        """What the kernel will write to, where that is not the op's output: fill it with these bytes."""

    def run(self):
        raise NotImplementedError

    def fetch(self):
        """Wait for run() and write the op's output. Returns a sentence about what the kernel wrote besides, or None."""

    def time(self, iterations, make_cold):
        """Nanoseconds of all iterations. make_cold: to be called before each, outside of the time; None: hot."""
        now, ns = time.monotonic_ns, 0
        if not make_cold:
            start = now()
            for _ in range(iterations):
                self.run()
            return now() - start
        for _ in range(iterations):
            make_cold()
            start = now()
            self.run()
            ns += now() - start
        return ns
