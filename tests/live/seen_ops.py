"""seen_ops.py - what a recording holds, by kernel, beside what the server called.

usage: seen_ops.py FIXTURE OPERATOR < the output of `fixture ops FIXTURE --json`
It fails unless there is an op of OPERATOR, or of a kernel whose name contains it.
SPDX-License-Identifier: Apache-2.0
"""
import collections
import json
import sys

fixture, operator = sys.argv[1], sys.argv[2]
tap = json.load(open(f"{fixture}/manifest.json"))["tap"]
ops = [json.loads(line) for line in sys.stdin]
calls = {o["name"]: o["calls"] for o in tap.get("operators", [])}
by_kernel = collections.defaultdict(list)
for op in ops:
    by_kernel[op["kernel"]].append(op)
for kernel, some in by_kernel.items():
    layers = {op.get("layer") for op in some}
    unnamed = sum(not op.get("layer") for op in some)
    print(f"  {kernel[:60]}: {len(some)} ops of {calls.pop(kernel, '?')} calls, {sorted({op['kind'] for op in some})}, {sorted({str(op.get('dtypes')) for op in some})},"
          f" {len(layers - {None})} layers, {unnamed} without a name")
print("  called, not recorded:", calls)
mine = [op for op in ops if operator in op["kernel"]]
print("seen" if mine else f"WRONG: no op of {operator}")
sys.exit(not mine)
