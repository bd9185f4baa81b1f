"""operator_ops.py - is all that an operator multiplied in the recording?

usage: operator_ops.py FIXTURE OPERATOR LAYERS [graphs] < the output of `fixture ops FIXTURE --json`
Each call of the operator is an op of kind gptq_gemm; each op has the name of a layer, four layers of
GEMMs a layer of the model; no launch of a kernel was recorded beside them. The kernel of an op is the
operator, or the one that it launched. With graphs, where an operator is called once, in the capture:
each layer has as many ops as all others, and nine in ten of the ops seen are there.
SPDX-License-Identifier: Apache-2.0
"""
import collections
import json
import sys

fixture, operator, layers = sys.argv[1], sys.argv[2], int(sys.argv[3])
tap = json.load(open(f"{fixture}/manifest.json"))["tap"]
ops = [op for op in map(json.loads, sys.stdin) if op["kind"] == "gptq_gemm"]
calls = {o["name"]: o["calls"] for o in tap.get("operators", [])}.get(operator, 0)
kept, seen = (json.load(open(f"{fixture}/manifest.json"))["ledger"].get(n, {"n": 0})["n"] for n in ("ops.kept", "ops.seen"))
names = collections.Counter(op.get("layer") for op in ops)
multiply_adds = [op["m"] * op["n"] * op["k"] for op in ops]
print(f"  {len(ops)} ops, {calls} calls of {operator}, {len(names)} layers, {sum(multiply_adds) / 1e9:.3f} G multiply-adds")
print("  forms:", dict(collections.Counter((op["kernel"], op["dtypes"]) for op in ops)))
whole = len(set(names.values())) == 1 and kept >= 0.9 * seen if "graphs" in sys.argv[4:] else len(ops) == calls > 0
right = whole and None not in names and len(names) == 4 * layers
right = right and all(op["kernel"] == operator or "::" not in op["kernel"] for op in ops)
print("operators are recorded" if right else f"WRONG: {names.most_common(4)}")
sys.exit(not right)
