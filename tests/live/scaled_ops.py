"""scaled_ops.py - are all products of 8-bit numbers in the recording?

usage: scaled_ops.py FIXTURE OPERATOR LAYERS [graphs] < the output of `fixture ops FIXTURE --json`
Each call of the operator is an op with the name of a layer, four layers of GEMMs a layer of the model;
what share of all ops' multiply-adds that is. graphs: the server ran CUDA graphs (recorded.py).
SPDX-License-Identifier: Apache-2.0
"""
import collections
import json
import sys

from recorded import all_recorded

fixture, operator, layers = sys.argv[1], sys.argv[2], int(sys.argv[3])
tap = json.load(open(f"{fixture}/manifest.json"))["tap"]
ops = [json.loads(line) for line in sys.stdin]
mine = [op for op in ops if op["kernel"] == operator]
work = lambda some: sum(op["m"] * op["n"] * op["k"] for op in some)
names = collections.Counter(op.get("layer") for op in mine)
print(f"  {len(mine)} ops of {operator} of {len(ops)} in all, {100 * work(mine) / max(1, work(ops)):.1f} % of their multiply-adds")
print(f"  {len(mine) - names[None]} have a name, of {len([n for n in names if n])} layers")
print("  forms:", dict(collections.Counter((op["kernel"], op["dtypes"]) for op in ops)))
print("  other operators:", {o["name"]: o["calls"] for o in tap.get("operators", []) if o["name"] != operator})
right = all_recorded(fixture, mine, operator, "graphs" in sys.argv[4:]) and None not in names and len(names) == 4 * layers
print("operators are recorded" if right else f"WRONG: {names.most_common(4)}")
sys.exit(not right)
