"""direct_ops.py - is each product with experts in the recording, and named?

usage: direct_ops.py FIXTURE OPERATOR LAYERS < the output of `fixture ops FIXTURE --json`
Each call of the operator is an op of kind moe_gemm, and has the name of one of the model's layers, of
which each has two.
SPDX-License-Identifier: Apache-2.0
"""
import collections
import json
import sys

from recorded import all_recorded

fixture, operator, layers = sys.argv[1], sys.argv[2], int(sys.argv[3])
ops = [op for op in map(json.loads, sys.stdin) if op["kind"] == "moe_gemm" and op["kernel"] == operator]
names = collections.Counter(op.get("layer") for op in ops)
print("  rows:", dict(sorted(collections.Counter(op["m"] for op in ops).items())))
right = all_recorded(fixture, ops, operator, False) and None not in names and len(names) == 2 * layers
print("operators are recorded" if right else f"WRONG: {names.most_common(4)}")
sys.exit(not right)
