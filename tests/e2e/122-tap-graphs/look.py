# look.py - does what the tap recorded of CUDA graphs hold together? With nothing of Tapedeck's.
# usage: look.py FIXTURE [sampled]
# SPDX-License-Identifier: Apache-2.0
import collections, json, subprocess, sys

fixture, sampled = sys.argv[1], len(sys.argv) > 2


def rows(name):
    raw = subprocess.run(["zstd", "-dcq", f"{fixture}/{name}.jsonl.zst"], capture_output=True).stdout.decode()
    return [json.loads(line) for line in raw.splitlines()]


m = json.load(open(f"{fixture}/manifest.json"))
sums, ops, steps = m["ledger"], rows("ops"), rows("steps")
count = lambda name: sums.get(name, {"n": 0})["n"]
for what in "ops", "steps":
    assert count(f"{what}.seen") == count(f"{what}.kept") + sum(v["n"] for k, v in sums.items() if k.startswith(f"{what}.dropped.")), sums
print("ledger balances")
by_step = collections.defaultdict(list)
for op in ops:
    by_step[op["step"]].append(op)
layers = [op["layer"] for op in by_step[steps[0]["step"]]]
assert len(set(layers)) == 28 and set(by_step) == {s["step"] for s in steps}
assert all([op["layer"] for op in by_step[s["step"]]] == layers for s in steps)
print("every step holds every layer once, in order, under its name:", len(layers))
if sampled:
    assert 0 < len(steps) < count("steps.seen")
    sys.exit()
size = collections.Counter((op["attrs"]["m"], all(l.get("graph", False) for l in op["impl"]["launches"])) for op in ops if op["layer"] == layers[0])
print("rows of the steps, in a graph or not:", sorted(size))
assert count("launches.graphs") == count("launches.graphs_read") == sum(n for (_, graph), n in size.items() if graph)
launches = sum(len(op["impl"]["launches"]) for op in ops)
assert launches == sum(k["launches"] for k in m["tap"]["kernels"] if k["recorded"]) == count("launches.known")
assert sum(k["launches"] for k in m["tap"]["kernels"]) == count("launches.seen")
print("launches of ops are those that were seen")
inputs = {(t["role"], t["blob"]) for op in ops for t in op["in"] if t["role"] == "a"}
assert len(inputs) == len(ops)
print("no two ops have the same activations")
