"""operator_ops.py - is all that an operator multiplied in the recording?

usage: operator_ops.py FIXTURE OPERATOR LAYERS [graphs] < the output of `fixture ops FIXTURE --json`
Each call of the operator is an op of kind gptq_gemm; each op has the name of a layer, four layers of
GEMMs a layer of the model; no launch of a kernel was recorded beside them. The kernel of an op is the
operator, or the one that it launched. graphs: the server ran them (recorded.py).
SPDX-License-Identifier: Apache-2.0
"""
import collections
import json
import sys

from recorded import all_recorded

fixture, operator, layers = sys.argv[1], sys.argv[2], int(sys.argv[3])
ops = [op for op in map(json.loads, sys.stdin) if op["kind"] == "gptq_gemm"]
names = collections.Counter(op.get("layer") for op in ops)
multiply_adds = [op["m"] * op["n"] * op["k"] for op in ops]
print(f"  {len(names)} layers, {sum(multiply_adds) / 1e9:.3f} G multiply-adds")
print("  forms:", dict(collections.Counter((op["kernel"], op["dtypes"]) for op in ops)))
right = all_recorded(fixture, ops, operator, "graphs" in sys.argv[4:]) and None not in names and len(names) == 4 * layers
right = right and all(op["kernel"] == operator or "::" not in op["kernel"] for op in ops)
print("operators are recorded" if right else f"WRONG: {names.most_common(4)}")
sys.exit(not right)
