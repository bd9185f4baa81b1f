"""operator_counts.py - hold the operators of torch that the tap counted against the kernels that ran.

usage: operator_counts.py eager|graphs FIXTURE LAYERS
The fixture is a recording of a vLLM with Machete's kernels and a model of so many layers. Eager,
each of the operators below launches its kernel once. Machete's kernels have names that are too long
to be counted: a step calls machete_mm four times a layer, and rms_norm once. Within CUDA graphs no
operator is called.
SPDX-License-Identifier: Apache-2.0
"""
import json
import sys

KERNELS = {"_C::fused_add_rms_norm": "fused_add_rms_norm_kernel", "_C::silu_and_mul": "act_and_mul_kernel",
           "_C::rotary_embedding": "rotary_embedding_kernel", "_C_cache_ops::reshape_and_cache_flash": "reshape_and_cache_flash_kernel"}

how, fixture, layers = sys.argv[1], sys.argv[2], int(sys.argv[3])
tap = json.load(open(f"{fixture}/manifest.json"))["tap"]
calls = {o["name"]: o["calls"] for o in tap.get("operators", [])}
wrong = 0
for name in calls:
    print(f"  {name:44} {calls[name]:8} calls")
for name, kernel in KERNELS.items() if how == "eager" else ():
    launches = sum(k["launches"] for k in tap["kernels"] if kernel in k["symbol"])
    wrong += not launches or launches != calls.get(name)
    print(f"  {name}: {launches} launches of its kernel")
if how == "eager":
    steps = calls.get("_C::rms_norm", 0)
    wrong += not steps or calls.get("_C::machete_mm") != 4 * layers * steps
    print(f"  {steps} steps")
print("WRONG: they differ" if wrong else "operators agree")
sys.exit(wrong > 0)
