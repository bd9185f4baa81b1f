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
    namespace = "_C"

    def __init__(self, build, op):
        super().__init__(build, op)
        need(op, "a")
        self.op_of, self.part, self.widths = build.operator(self.name, self.namespace), op.attrs.get("part", 0), {}
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


class CacheRows(Beside):
    """An operator that writes rows into the slots of a cache. The cache is a small one: the blocks that the list names, in
    their order. What lies in other slots must stay."""
    namespace, outputs = "_C_cache_ops", ["key_cache", "value_cache"]
    TYPES = {"F8_E4M3": "fp8_e4m3", "F8_E5M2": "fp8_e5m2"}

    def __init__(self, build, op):
        need(op, "a", "slots")
        self.is_joint, self.x = bool(op.get("k_pe")), op.attrs.get("x", 0)
        if self.is_joint:
            self.name, self.outputs = "concat_and_cache_mla", ["kv_cache"]
        else:
            need(op, "value")
            self.name = "reshape_and_cache" if self.x else "reshape_and_cache_flash"
        super().__init__(build, op)
        self.stored, self.block = op.out.dtype, op.attrs["block_size"]
        if self.stored not in self.TYPES and self.stored != op.get("a").dtype:
            raise Unsupported(f"{self.name} stores {op.get('a').dtype} as it is or as codes of 8 bits, not as {self.stored}")
        if self.x and op.attrs["head"] % self.x:
            raise Unsupported(f"{self.name} takes heads that are a multiple of x, not {op.attrs['head']} and {self.x}")

    def values(self):
        op, torch = self.op, self.build.torch
        dtype = torch.uint8 if self.stored in self.TYPES else self.build.dtypes[self.stored]
        self.slots, self.blocks = self.small_slots()
        for name in self.outputs:
            self.written(name, torch.empty(self.form_of(name)[0], dtype=dtype), None)
        values = {"slot_mapping": self.on_gpu("slots", torch.from_numpy(self.slots)), "kv_cache_dtype": self.TYPES.get(self.stored, "auto")}
        if self.is_joint:
            return {"kv_c": self.load("a"), "k_pe": self.load("k_pe"), "scale": self.scale("k_scale"), **values}
        heads = {name: self.load(role).view(-1, op.attrs["n"] // op.attrs["head"], op.attrs["head"]) for name, role in (("key", "a"), ("value", "value"))}
        return {**heads, "k_scale": self.scale("k_scale"), "v_scale": self.scale("v_scale"), **values}

    def scale(self, role):
        """Where nothing is scaled the operator wants one all the same."""
        torch = self.build.torch
        return self.load(role) if self.op.get(role) else self.on_gpu(role, torch.full([1], 1, dtype=torch.float32))

    def small_slots(self):
        """The list, as if its blocks were all that there are; and how many these are."""
        import numpy

        slots = self.build.tensor(self.op.get("slots")).numpy().copy()
        is_written = slots >= 0
        used, place = numpy.unique(slots[is_written] // self.block, return_inverse=True)
        slots[is_written] = place * self.block + slots[is_written] % self.block
        return slots, max(len(used), 1)

    def form_of(self, name):
        """The shape of a cache in memory, and which of its dimensions counts the slots of a block."""
        if self.is_joint:
            return [self.blocks, self.block, self.op.out.shape[1]], 1
        heads, head = self.op.attrs["n"] // self.op.attrs["head"], self.op.attrs["head"]
        if self.x:
            return ([self.blocks, heads, head // self.x, self.block, self.x] if name == "key_cache" else [self.blocks, heads, head, self.block]), 3
        if self.op.attrs.get("apart", 0):
            return [self.blocks, heads, self.block, head], 2
        return [self.blocks, self.block, heads, head], 1

    def prepare(self):
        super().prepare()
        if self.op.attrs.get("apart", 0):
            self.arguments.update({name: g.x.transpose(1, 2) for name, g in self.margins.items()})

    def refill(self):
        torch = self.build.torch
        for g in self.margins.values():
            flat = g.x.view(-1).view(torch.uint8)
            flat.view(-1, len(self.fill())).copy_(self.fill())

    def fill(self):
        torch = self.build.torch
        return torch.full([1], 0, dtype=torch.uint8) if self.pattern is None else self.pattern

    def bytes_of(self, name):
        """What lies in each slot, as an array."""
        import numpy

        shape, at = self.form_of(name)
        x = self.margins[name].x
        flat = x.view(-1).view(self.build.torch.uint8).cpu().numpy()
        return numpy.moveaxis(flat.reshape([*shape, x.element_size()]), at, 1).reshape(self.blocks * self.block, -1)

    def fetch(self):
        """Rows that are not written are zeros, as in a recording."""
        import numpy

        torch, found, is_written = self.build.torch, None, self.slots >= 0
        others = numpy.setdiff1d(numpy.arange(self.blocks * self.block), self.slots)
        for name in self.outputs:
            rows, fill = self.bytes_of(name), self.fill().numpy()
            if (rows[others].reshape(-1, len(fill)) != fill).any():
                found = f"wrote into slots of {name} that the list does not name"
            if name == self.outputs[self.part]:
                out = numpy.zeros([len(self.slots), rows.shape[1]], dtype=numpy.uint8)
                out[is_written] = rows[self.slots[is_written]]
                self.result = torch.from_numpy(out).view(self.build.dtypes[self.stored])
        return super().fetch() or found


KINDS = {"cache_rows": CacheRows, "rms_norm": RmsNorm, "fused_add_rms_norm": FusedAddRmsNorm, "silu_and_mul": SiluAndMul, "rotary_embedding": RotaryEmbedding,
         "scaled_quant": ScaledQuant}
