# look.py - check a recording of graphs that ran from twins; uses no code of Tapedeck.
# usage: look.py FIXTURE [share]
# SPDX-License-Identifier: Apache-2.0
import sys

sys.path.append(sys.path[0] + "/../..")
from recorded import Recorded

fixture, share = Recorded(sys.argv[1]), len(sys.argv) > 2
fixture.balance()
print("ledger balances")
layers = fixture.layers()
print("every step holds every layer once, in order, under its name:", len(layers))
count = fixture.count
inputs = {t["blob"] for op in fixture.ops for t in op["in"] if t["role"] == "a"}
assert len(inputs) == len(fixture.ops)
print("no two ops have the same activations")
assert count("start.tap_us") > 0 # for the captures
assert count("launches.graphs") == count("launches.graphs_read") >= len(fixture.steps)
if share:
    assert 0 < len(fixture.steps) < count("steps.seen")
else:
    # all of them ran before, in the timed phase
    assert len(fixture.steps) == count("steps.seen") and not count("steps.dropped.graph")
    print("every step was recorded, the first one too")
