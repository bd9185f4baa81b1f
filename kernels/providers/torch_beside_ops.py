"""torch_beside_ops.py - how a vLLM for GPUs computes what stands beside products: norms, activations, quantisers.
SPDX-License-Identifier: Apache-2.0

An op is one output of a call (attribute part). Arguments that the operator writes lie between margins, and hold before each
call what they held when it was recorded, or the pattern that shows unwritten elements. Schemas are those of vLLM 0.26
(csrc/libtorch_stable/torch_bindings.cpp)."""
from torch_build import Unsupported, need
from torch_gpu_ops import MARGIN, Guarded, Plan


class Beside(Plan):
    """An op beside products. Subclasses have `name`, the operator's, `outputs`, its written arguments in the order of their
    parts, and values(), all other arguments. widths: of written arguments whose rows hold several vectors."""

    def __init__(self, build, op):
        super().__init__(build, op)
        need(op, "a")
        self.op_of, self.part, self.widths = build.operator(self.name), op.attrs.get("part", 0), {}
        if self.part >= len(self.outputs):
            raise Unsupported(f"{self.name} has {len(self.outputs)} outputs, and this op is number {self.part}, counted from 0")
        if op.get("a").dtype not in ("F16", "BF16", "F32"):
            raise Unsupported(f"{self.name} takes F16, BF16 and F32; here {op.get('a').dtype}")

    def epsilon(self):
        return self.build.tensor(need(self.op, "eps")[0]).item()

    def fresh(self, name, shape=None, dtype=None):
        """An output that nobody reads before: the op's own, or, of another part, of this shape and type."""
        out = self.op.out
        if self.outputs[self.part] == name:
            shape, dtype = out.shape, out.dtype
        return self.written(name, self.build.torch.empty(shape, dtype=self.build.dtypes[dtype]), None)

    def over(self, name, role):
        """An argument that is written over input `role`."""
        return self.written(name, self.build.tensor(self.op.get(role)), self.load(role))

    def written(self, name, x, before):
        self.margins[name] = Guarded(self.build.torch, x)
        self.before[name] = before
        return self.margins[name].x

    def prepare(self):
        self.margins, self.before = {}, {}
        self.arguments = self.values()
        for name, g in self.margins.items():
            self.arguments[name] = g.x.view(-1, self.widths[name]) if name in self.widths else g.x

    def refill(self):
        torch, out = self.build.torch, self.outputs[self.part]
        for name, g in self.margins.items():
            if self.before[name] is not None:
                g.x.copy_(self.before[name])
            elif self.pattern is not None and name == out:
                flat = g.x.view(-1).view(torch.uint8)
                flat.view(-1, len(self.pattern)).copy_(self.pattern)

    def run(self):
        self.refill()
        self.result = self.call()

    def call(self):
        self.op_of(**self.arguments)
        return self.margins[self.outputs[self.part]].x

    def fetch(self):
        equal, found = self.build.torch.equal, super().fetch()
        for name, g in self.margins.items():
            end = MARGIN + g.x.numel() * g.x.element_size()
            if not found and not (equal(g.all[:MARGIN], g.copy[:MARGIN]) and equal(g.all[end:], g.copy[end:])):
                found = f"wrote beside its argument {name}"
        return found


class RmsNorm(Beside):
    """Rows may hold several vectors (a norm of the heads of q): it is called with a vector a row."""
    name, outputs = "rms_norm", ["result"]

    def values(self):
        n = self.op.attrs["n"]
        self.fresh("result")
        self.widths = {"result": n}
        return {"input": self.load("a").view(-1, n), "weight": self.load("w"), "epsilon": self.epsilon()}


class FusedAddRmsNorm(Beside):
    name, outputs = "fused_add_rms_norm", ["input", "residual"]

    def values(self):
        need(self.op, "residual")
        self.over("input", "a")
        self.over("residual", "residual")
        self.widths = dict.fromkeys(self.outputs, self.op.attrs["n"])
        return {"weight": self.load("w"), "epsilon": self.epsilon()}


class SiluAndMul(Beside):
    name, outputs = "silu_and_mul", ["result"]

    def values(self):
        n = self.op.attrs["n"]
        self.fresh("result")
        self.widths = {"result": n}
        return {"input": self.load("a").view(-1, 2 * n)}


class RotaryEmbedding(Beside):
    """An older vLLM has neither rope_dim_offset nor inverse: they are named only where they say something."""
    name, outputs = "rotary_embedding", ["query", "key"]

    def values(self):
        op = self.op
        need(op, "positions", "cos_sin", *["key"] * self.part)
        self.over("query", "a")
        values = {"key": None} if not op.get("key") else {}
        if op.get("key"):
            self.over("key", "key")
        values.update(positions=self.load("positions"), head_size=op.attrs["n"], cos_sin_cache=self.load("cos_sin"), is_neox=bool(op.attrs["neox"]))
        if op.attrs.get("offset", 0):
            values["rope_dim_offset"] = op.attrs["offset"]
        if op.attrs.get("inverse", 0):
            values["inverse"] = True
        return values


class ScaledQuant(Beside):
    """scaled_int8_quant and scaled_fp8_quant of vllm/_custom_ops.py."""
    outputs = ["result", "scale", "azp"]
    CODES = {1: ("int8", "I8"), 2: ("fp8", "F8_E4M3")}

    def __init__(self, build, op):
        code, self.is_given, self.per_tensor = op.attrs.get("code"), op.get("scale"), op.attrs.get("per_tensor", 0)
        if code not in self.CODES:
            raise Unsupported(f"vLLM's quantisers make I8 (1) and F8_E4M3 (2), not code {code}")
        word, self.dtype = self.CODES[code]
        per_token = word == "fp8" and not self.is_given and not self.per_tensor
        self.name = f"{'static' if self.is_given else 'dynamic_per_token' if per_token else 'dynamic'}_scaled_{word}_quant"
        super().__init__(build, op)

    def values(self):
        a, n = self.op.get("a"), self.op.attrs["n"]
        values, vectors = {"input": self.load("a").view(-1, n)}, a.shape[0] * a.shape[1] // n
        self.fresh("result", a.shape, self.dtype)
        self.widths = {"result": n}
        if self.is_given:
            values["scale"] = self.load("scale")
        else:
            self.fresh("scale", [1] if self.per_tensor else [vectors, 1], "F32")
        if self.dtype == "I8" and not self.is_given and self.op.attrs.get("azp", 0):
            self.fresh("azp", [vectors, 1], "I32")
        elif self.dtype == "I8":
            values["azp"] = self.load("azp")
        if self.op.get("upper"):
            values["scale_ub"] = self.load("upper")
        return values


KINDS = {"rms_norm": RmsNorm, "fused_add_rms_norm": FusedAddRmsNorm, "silu_and_mul": SiluAndMul, "rotary_embedding": RotaryEmbedding,
         "scaled_quant": ScaledQuant}
