"""operator_counts.py - hold the operators of torch that the tap counted against the kernels that ran.

usage: operator_counts.py eager|graphs FIXTURE
The fixture is a recording of a vLLM with Machete's kernels. Eager, each call of machete_mm launches
the kernel once, so both counts must agree. Within CUDA graphs no operator is called.
SPDX-License-Identifier: Apache-2.0
"""
import json
import sys

how, fixture = sys.argv[1:]
tap = json.load(open(f"{fixture}/manifest.json"))["tap"]
operators = {o["name"]: o for o in tap.get("operators", [])}
for o in operators.values():
    print(f"  {o['name']:44} {o['dispatch']:10} {o['calls']:8} calls {o['bytes']:14} bytes")
launches = sum(k["launches"] for k in tap.get("kernels", []) if "machete" in k["symbol"].lower())
calls = operators.get("_C::machete_mm", {}).get("calls", 0)
print(f"machete: {calls} calls of the operator, {launches} launches of the kernel")
if how == "eager" and (not calls or calls != launches):
    sys.exit("WRONG: they differ")
