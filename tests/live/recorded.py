"""recorded.py - for operator_ops.py, scaled_ops.py, moe_ops.py: was every call of an operator recorded?
SPDX-License-Identifier: Apache-2.0
"""
import collections
import json

ENOUGH = 0.9  # of the ops in CUDA graphs: a graph's first launches come before its twin is made


def all_recorded(fixture, ops, operator, graphs):
    """ops: those of the operator. Eager, each call is an op. Within CUDA graphs an operator is called once, in the
    capture: each layer has as many ops as all others, and ENOUGH of the ops that the tap saw are kept."""
    manifest = json.load(open(f"{fixture}/manifest.json"))
    calls = {o["name"]: o["calls"] for o in manifest["tap"].get("operators", [])}.get(operator, 0)
    kept, seen = (manifest["ledger"].get(name, {"n": 0})["n"] for name in ("ops.kept", "ops.seen"))
    print(f"  {len(ops)} ops of {operator}, {calls} calls; of all ops {kept} of {seen} are kept, {100 * kept / max(1, seen):.1f} %")
    if not graphs:
        return len(ops) == calls > 0
    return calls > 0 and len(set(collections.Counter(op.get("layer") for op in ops).values())) == 1 and kept >= ENOUGH * seen
