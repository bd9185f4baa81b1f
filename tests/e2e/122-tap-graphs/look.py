# look.py - check that a recording of CUDA graphs is consistent; uses no code of Tapedeck.
# usage: look.py FIXTURE [sampled]
# SPDX-License-Identifier: Apache-2.0
import collections, sys

sys.path.append(sys.path[0] + "/../..")
from recorded import Recorded

fixture, sampled = Recorded(sys.argv[1]), len(sys.argv) > 2
ops, steps, count = fixture.ops, fixture.steps, fixture.count
fixture.balance()
print("ledger balances")
layers = fixture.layers()
print("every step holds every layer once, in order, under its name:", len(layers))
if sampled:
    assert 0 < len(steps) < count("steps.seen")
    sys.exit()
size = collections.Counter((op["attrs"]["m"], all(l.get("graph", False) for l in op["impl"]["launches"])) for op in ops if op["layer"] == layers[0])
print("rows of the steps, in a graph or not:", sorted(size))
assert count("launches.graphs") == count("launches.graphs_read") == sum(n for (_, graph), n in size.items() if graph)
fixture.launches()
print("launches of ops are those that were seen")
inputs = {(t["role"], t["blob"]) for op in ops for t in op["in"] if t["role"] == "a"}
assert len(inputs) == len(ops)
print("no two ops have the same activations")
