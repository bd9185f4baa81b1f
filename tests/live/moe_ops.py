"""moe_ops.py - is all that multiplies with experts in the recording, and what share of the products is it?

usage: moe_ops.py FIXTURE MODEL [graphs] < the output of `fixture ops FIXTURE --json`
MODEL is a folder of random_gptq.py --experts. Quantised: each call of the operator is an op, each
op has the name of its layer, two for each layer of the model. In 16 bits Triton multiplies with the
experts, which no operator announces: the share that the tap does not see is computed from the rows
of the layers that it does, and the kernel must be named among those that it does not read.
graphs: the server ran CUDA graphs (recorded.py).
SPDX-License-Identifier: Apache-2.0
"""
import collections
import json
import sys

from recorded import all_recorded

OPERATOR = "_moe_C::moe_wna16_marlin_gemm"

fixture, model = sys.argv[1], json.load(open(f"{sys.argv[2]}/config.json"))
tap = json.load(open(f"{fixture}/manifest.json"))["tap"]
ops = [json.loads(line) for line in sys.stdin]
graphs = "graphs" in sys.argv[3:]
moe = [op for op in ops if op["kind"] == "moe_gemm"]
hidden, ffn, top_k, layers = (model[k] for k in ("hidden_size", "intermediate_size", "num_experts_per_tok", "num_hidden_layers"))


def slots(op):
    """Rows of C: a gate and up has a row of A for each token, a down one for each choice of a token."""
    return op["m"] * top_k if op["k"] == hidden else op["m"]


adds = collections.Counter()
for op in ops:
    adds[op["kernel"]] += (slots(op) if op in moe else op["m"]) * op["n"] * op["k"]
tokens = sum(op["m"] for op in ops if (op.get("layer") or "").endswith("o_proj"))
experts = tokens * top_k * 3 * hidden * ffn
seen = sum(v for k, v in adds.items() if k == OPERATOR)
total = sum(adds.values()) + experts - seen
for kernel, n in adds.most_common():
    print(f"  {n / 1e9:10.3f} G multiply-adds, {100 * n / total:5.1f} %  {kernel[:60]}")
print(f"  experts: {seen / 1e9:.3f} G of {experts / 1e9:.3f} G multiply-adds recorded; of all products {100 * (total - experts + seen) / total:.1f} %")
names = collections.Counter(op.get("layer") for op in moe)
print(f"  layers {sorted(map(str, names))[:4]}")
if "quantization_config" in model:
    right = all_recorded(fixture, moe, OPERATOR, graphs) and None not in names and len(names) == 2 * layers and (graphs or seen == experts > 0)
    print("experts are recorded" if right else f"WRONG: {names.most_common(4)}")
else:
    triton = {k["symbol"][:60]: k["launches"] for k in tap.get("kernels", []) if "fused_moe" in k["symbol"]}
    print(f"  kernels of experts that are not read: {triton}")
    right = bool(triton) and not moe
    print("experts are named, not recorded" if right else "WRONG: no kernel of experts is named")
sys.exit(not right)
