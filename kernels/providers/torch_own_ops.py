"""torch_own_ops.py - operators that a file of the user's describes (replay --ops), run in the Python of --build.
SPDX-License-Identifier: Apache-2.0

`replay` has read and checked the file, and hands its rows on in TD_OPS_ROWS, as JSON (replayer/own_json.h). What is
loaded comes from that file, or from TD_OPS_LOAD (--build-env), never from a fixture. The libraries are loaded in the
process that runs ops, because loading them may start CUDA."""
import importlib
import json
import os

import torch_build
import torch_gpu_ops
from torch_build import TD_ENOTFOUND, TD_EUNSUPPORTED, LoadError, Unsupported, need, words_of
from torch_gpu_ops import MARGIN, Operator, pack, unpack, zero_points


def rows_given():
    """What --ops says: {"load": […], "rows": […]}. None: it was not given."""
    text = os.environ.get("TD_OPS_ROWS")
    return json.loads(text) if text else None


class Build(torch_gpu_ops.Build):
    """Operators of the user's own, beside vLLM's where this Python has vLLM. folder: vLLM's; None: it has none."""

    def __init__(self, torch, folder, given):
        if folder:
            super().__init__(torch, folder)
        else:
            torch_build.Build.__init__(self, torch, "")
            self.sweep = self.spacer = None
        self.loads, self.rows = given["load"], {r["name"]: r for r in given["rows"]}
        other = os.environ.get("TD_OPS_LOAD")
        if other:
            self.loads = [{"path": other}]

    def start(self):
        words = super().start() if self.folder else self.describe()
        return ", ".join([words] + [self.load(one) for one in self.loads])

    def describe(self):
        torch = self.torch
        if not torch.cuda.is_available():
            raise LoadError(TD_EUNSUPPORTED, f"the operators of --ops run on a GPU, and torch {torch.__version__} finds none here")
        return f"torch {torch.__version__}, {torch.cuda.get_device_name(0)}"

    def load(self, one):
        """Load a library or a module. Returns its short name."""
        try:
            if "module" in one:
                importlib.import_module(one["module"])
                return one["module"]
            if not os.path.exists(one["path"]):
                raise LoadError(TD_ENOTFOUND, f"{one['path']}: no such file; --ops has it to load")
            self.torch.ops.load_library(one["path"])
            return os.path.basename(one["path"])
        except (OSError, ImportError, RuntimeError) as e:
            raise LoadError(TD_EUNSUPPORTED, f"{one.get('module') or one['path']}: {e}")

    def plan(self, op):
        row = self.rows.get(os.environ.get("TD_OPERATOR") or op.symbol)
        if not row:
            return super().plan(op)
        if row["kind"] != op.kind:
            raise Unsupported(f"{row['name']} is of kind {row['kind']}, this op of {op.kind}")
        return {"gemm": Gemm, "gptq_gemm": Gptq, "scaled_mm": Scaled, "moe_gemm": Experts}[op.kind](self, op, row)

    def operator(self, name, namespace="_C"):
        if not self.folder:
            raise Unsupported(f"no row of --ops is for this op, and this Python has no vLLM with its {name}")
        return super().operator(name, namespace)

    def own_operator(self, name):
        space, _, rest = name.partition("::")
        short, _, overload = rest.partition(".")
        packet = getattr(getattr(self.torch.ops, space), short, None)
        if not packet:
            raise Unsupported(f"what --ops loads has not registered {name}")
        return Operator(name, getattr(packet, overload or "default"))


class Out:
    """Memory for C between margins, which hold a pattern: what an operator wrote beside C is found."""

    def __init__(self, torch, shape, dtype):
        n = torch.empty(shape, dtype=dtype).numel() * torch.empty([1], dtype=dtype).element_size()
        self.torch = torch
        self.all = torch.full([n + 2 * MARGIN + -n % 256], 0xFF, dtype=torch.uint8, device="cuda")
        self.bytes = self.all[MARGIN:MARGIN + n]
        self.x = self.bytes.view(dtype).view(shape)
        self.margin = torch.full([MARGIN], 0xFF, dtype=torch.uint8, device="cuda")

    def poison(self, pattern):
        self.bytes.view(-1, len(pattern)).copy_(pattern)

    def is_overrun(self):
        end = self.bytes.numel() + MARGIN
        return not all(self.torch.equal(self.all[at:at + MARGIN], self.margin) for at in (0, end))


class Own(torch_gpu_ops.Plan):
    """An op, run by the operator of a row. Subclasses have weights(), which fills `values`."""

    def __init__(self, build, op, row):
        self.name, self.row, self.arg = row["name"], row, row["args"]
        super().__init__(build, op)
        self.op_of, self.values, self.out = build.own_operator(self.name), {}, None
        need(op, "a", *row["needs"])
        self.dtype = build.dtypes.get(op.get("a").dtype)
        self.rounding = self.declared_rounding()
        if op.get("bias") and "bias" not in self.arg:
            raise Unsupported(f"this op has a bias, and the row of {self.name} none")
        self.refuse_unknown_arguments()

    def declared_rounding(self):
        """"weight" is to A's type."""
        words = self.row["rounding"].split("+")
        return "+".join("weight-" + self.op.get("a").dtype.lower() if w == "weight" else w for w in words)

    def refuse_unknown_arguments(self):
        row, known = self.row, set(self.arg.values()) | {f["arg"] for f in self.row["fixed"]}
        known |= {row.get("out")} | {row[n]["arg"] for n in ("bits", "group_size", "top_k", "block_size", "mul_topk_weights") if "arg" in row.get(n, {})}
        names = [a.name for a in self.op_of.arguments]
        for a in self.op_of.arguments:
            if a.name not in known and not a.has_default_value() and not str(a.type).startswith("Optional"):
                raise Unsupported(f"{self.name} wants {a.name}; say its value in the file of --ops: fixed {a.name} = …")
        for name in sorted(n for n in known if n):
            if name not in names:
                raise Unsupported(f"{self.name} of this build has no argument {name}, which --ops names")

    def fixed_value(self, f):
        if "zeros" in f:
            dtypes = dict(self.build.dtypes, U8=self.build.torch.uint8)
            return self.build.torch.zeros(f["zeros"]["shape"], dtype=dtypes[f["zeros"]["dtype"]], device="cuda")
        return float(f["real"]) if "real" in f else f["value"]

    def number(self, key, value):
        """The op's value of an attribute goes into the row's argument, or must be the row's number."""
        said = self.row.get(key, {})
        if "arg" in said:
            self.values[said["arg"]] = value
        elif "value" in said and said["value"] != value:
            raise Unsupported(f"{self.name} has {key} {said['value']}, this op {value}")

    def give(self, role, tensor):
        if role in self.arg:
            self.values[self.arg[role]] = None if tensor is None else self.on_gpu(role, tensor)

    def recorded(self, role):
        t = self.op.get(role)
        return self.build.tensor(t) if t else None

    def prepare(self):
        self.values = {f["arg"]: self.fixed_value(f) for f in self.row["fixed"]}
        self.give("a", self.recorded("a"))
        self.weights()
        self.give("bias", self.recorded("bias"))
        if "out" in self.row:
            self.out = Out(self.build.torch, self.op.out.shape, self.build.dtypes[self.op.out.dtype])
            self.values[self.row["out"]] = self.out.x

    def run(self):
        if not self.out:
            return super().run()
        if self.pattern is not None:
            self.out.poison(self.pattern)
        self.result = self.call()

    def call(self):
        result = self.op_of(**self.values)
        return self.out.x if self.out else result

    def fetch(self):
        found = super().fetch()
        if not found and self.out and self.out.is_overrun():
            return "wrote before or past its output"
        return found


class Gemm(Own):
    def weights(self):
        w = self.recorded("w")
        self.give("w", w.t().contiguous() if self.row["layout"] == "kn" else w)


class Gptq(Own):
    def __init__(self, build, op, row):
        super().__init__(build, op, row)
        if (row["layout"] == "unknown") != (op.layout == "unknown"):
            raise Unsupported(f"this op's weights lie as \"{op.layout}\", and {self.name} takes them as \"{row['layout']}\"")
        if row["layout"] == "unknown" and op.symbol != self.name:
            raise Unsupported(f"the weights of this op are {op.symbol}'s, in a layout that is not known")
        if op.get("g_idx") and "g_idx" not in self.arg and op.attrs.get("act_order"):
            raise Unsupported(f"this op has act-order, and the row of {self.name} no g_idx")
        if row["layout"] == "gptq" and "qzeros" not in self.arg and zero_points(op) is not None:
            raise Unsupported(f"this op has zero points, and the row of {self.name} no qzeros")

    def zeros(self):
        """The recorded zero points as the row has them stored."""
        t, bits = self.op.get("qzeros"), self.op.attrs["bits"]
        more = self.op.attrs.get("zero_offset", 1) - self.row["zero_offset"]
        if not t or not more or self.row["layout"] == "unknown":
            return self.recorded("qzeros")
        last = len(t.shape) - 1
        numbers = (unpack(words_of(t), bits, last).astype("int64") + more) & ((1 << bits) - 1)
        return self.build.torch.from_numpy(pack(numbers, bits, last).view("int32"))

    def g_idx(self):
        """Row order; an operator that takes one gets the plain order where the op has none."""
        if "g_idx" not in self.arg or self.op.get("g_idx"):
            return self.recorded("g_idx")
        return self.build.torch.arange(self.op.attrs["k"], dtype=self.build.torch.int32) // self.op.attrs["group_size"]

    def weights(self):
        k, group = self.op.attrs["k"], self.op.attrs["group_size"]
        self.number("bits", self.op.attrs["bits"])
        said = self.row.get("group_size", {})
        self.number("group_size", -1 if group == k and said.get("value") == -1 else group)
        self.give("qweight", self.recorded("qweight"))
        self.give("scales", self.recorded("scales"))
        self.give("qzeros", self.zeros())
        self.give("g_idx", self.g_idx())


class Experts(Gptq):
    """The weights of all experts in one tensor each, and the recorded routing."""
    ROUTING = ["sorted_token_ids", "expert_ids", "num_tokens_post_padded", "topk_weights"]

    def __init__(self, build, op, row):
        super().__init__(build, op, row)
        multiplies = bool(op.attrs.get("mul_topk_weights", 0))
        said = row.get("mul_topk_weights", {"value": int("topk_weights" in self.arg and bool(op.get("topk_weights")))})
        if (multiplies and "topk_weights" not in self.arg) or ("value" in said and bool(said["value"]) != multiplies):
            raise Unsupported(f"this op {'multiplies' if multiplies else 'does not multiply'} by topk_weights, and {self.name} does otherwise")
        if multiplies and op.attrs.get("round_topk_weights", 0) != row["round_topk_weights"]:
            raise Unsupported(f"this op has round_topk_weights {op.attrs.get('round_topk_weights', 0)}, and the row of {self.name} {row['round_topk_weights']}")

    def g_idx(self):
        g_idx = super().g_idx()
        return g_idx.repeat(self.op.attrs["experts"], 1) if g_idx is not None and not self.op.get("g_idx") else g_idx

    def flag(self, key, value):
        """As number(), of an argument that may be a bool."""
        name = self.row.get(key, {}).get("arg")
        is_bool = any(a.name == name and str(a.type) == "bool" for a in self.op_of.arguments)
        self.number(key, bool(value) if is_bool else value)

    def weights(self):
        super().weights()
        self.number("top_k", self.op.attrs["top_k"])
        self.number("block_size", self.op.attrs["block_size"])
        self.flag("mul_topk_weights", self.op.attrs.get("mul_topk_weights", 0))
        for role in self.ROUTING:
            self.give(role, self.recorded(role))


class Scaled(Own):
    """Scales come as [m, 1] and [1, n], or [1, 1]; per block as they were recorded."""

    def __init__(self, build, op, row):
        super().__init__(build, op, row)
        for role in "azp", "azp_adj":
            if op.get(role) and role not in self.arg:
                raise Unsupported(f"this op has an {role}, and the row of {self.name} none")
        if "type" in row and row["type"] != op.out.dtype:
            raise Unsupported(f"{self.name} gives {row['type']}, this op has {op.out.dtype}")

    def scales(self, role, *shape):
        x = self.recorded(role)
        self.give(role, x.view(*shape) if len(self.op.get(role).shape) == 1 else x)

    def weights(self):
        w = self.recorded("w")
        self.give("w", w.t() if self.row["layout"] == "kn" else w)
        self.scales("a_scales", -1, 1)
        self.scales("w_scales", 1, -1)
        self.give("azp_adj", self.recorded("azp_adj"))
        self.give("azp", self.recorded("azp"))
