"""vllm_layout.py - check that kernels/providers/vllm_ops.py packs 4-bit weights as vLLM's own
Python does.

Run it with the Python of a venv that has vLLM; vllm_kernels.sh does. vLLM's code makes both
packings of CPUWNA16LinearKernel (with W4A8's op replaced by one that stores its arguments), and
they must equal, byte for byte, what vllm_ops.py gives to the kernels. Any CPU will do, because no
kernel runs. Importing vLLM takes 15 seconds. SPDX-License-Identifier: Apache-2.0"""
import os
import sys
import types

import numpy
import torch

sys.dont_write_bytecode = True
here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(here, "../helpers"), os.path.join(here, "../../kernels/providers")]
import raw_ops
import vllm_child
import vllm_ops
from vllm.model_executor.kernels.linear.mixed_precision import cpu as theirs
from vllm.scalar_type import scalar_types

K, N, GROUP = 128, 96, 32
rng = numpy.random.default_rng(3)
qweight = raw_ops.pack(rng.integers(0, 16, (K, N)), 0)
scales = torch.rand(K // GROUP, N).to(torch.bfloat16)


def their_layer():
    layer = torch.nn.Module()
    layer.qweight = torch.nn.Parameter(torch.from_numpy(qweight.copy()), requires_grad=False)
    layer.scales = torch.nn.Parameter(scales.clone(), requires_grad=False)
    layer.bias = None
    return layer


def their_kernel():
    kernel = object.__new__(theirs.CPUWNA16LinearKernel)
    kernel.config = types.SimpleNamespace(weight_type=scalar_types.uint4b8, zero_points=False)
    kernel.w_q_name, kernel.w_s_name, kernel.w_zp_name, kernel.w_gidx_name = "qweight", "scales", "qzeros", None
    return kernel


def theirs_w4a16():
    layer = their_layer()
    their_kernel()._process_gptq_weights_w4a16(layer)
    return layer.qweight.data


def theirs_w4a8():
    seen = []
    theirs.ops.convert_weight_packed_scale_zp = lambda *args: seen.extend(args) or args[:3]
    their_kernel()._process_gptq_weights_w4a8(their_layer())
    return seen


class Build:
    """vllm_ops.Build, with kernels that note their arguments."""
    torch, amx = torch, False

    def __init__(self):
        self.seen = []

    def kernel(self, name, n_args):
        return lambda *args: self.seen.extend(args) or (args + args)[:3]

    def tensor(self, t):
        return {"scales": scales}.get(t.role, torch.zeros(2, N, dtype=torch.bfloat16))


def op():
    address = qweight.ctypes.data
    tensor = types.SimpleNamespace
    inputs = [tensor(role="a", dtype="BF16"), tensor(role="scales", dtype="BF16"),
              tensor(role="qweight", dtype="I32", data=address, size=qweight.nbytes, shape=qweight.shape, strides=[N, 1])]
    return vllm_child.Op("gptq_gemm", {"k": K, "n": N}, inputs, tensor(role="c", dtype="BF16", shape=[2, N]))


def same(what, ours, other):
    equal = ours.dtype == other.dtype and ours.shape == other.shape and torch.equal(ours, other)
    print(f"{what}: {'equal' if equal else 'DIFFERENT'}")
    return equal


def prepared(kind):
    build = Build()
    plan = kind(build, op())
    plan.prepare()
    return plan, build.seen


plan, _ = prepared(vllm_ops.Int4W4A16)
good = same("W4A16 weights", plan.w, theirs_w4a16())
_, ours = prepared(vllm_ops.Int4W4A8)
for what, mine, other in zip(("W4A8 weights", "W4A8 zeros", "W4A8 scales"), ours, theirs_w4a8()):
    good &= same(what, mine, other)
good &= ours[3] == 0 == int(theirs.ops.CPUQuantAlgo.AWQ)
sys.exit(0 if good else 1)
