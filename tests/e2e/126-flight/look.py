# look.py - check that the dump of the flight recorder is complete, in order, and balanced; uses no
# code of Tapedeck.
# usage: look.py FIXTURE [WHY [LAYER]]
# SPDX-License-Identifier: Apache-2.0
import collections, sys

sys.path.append(sys.path[0] + "/../..")
from recorded import Recorded

folder, why, layer = (sys.argv[1:] + [None, None])[:3]
fixture = Recorded(folder)
ops, steps, tap = fixture.ops, fixture.steps, fixture.tap
fixture.balance()
assert len(steps) == len({s["step"] for s in steps})
print("ledger balances")
kept = [op for op in ops if op.get("flight")]
assert {op["step"] for op in ops} <= {s["step"] for s in steps}
if not why:
    assert not kept and "flight" not in tap and not fixture.count("ops.dropped.flight")
    sys.exit(print("nothing was kept, and nothing flew"))
assert kept and all(op["flight"] == why for op in kept)
assert [op["t_ns"] for op in kept] == sorted(op["t_ns"] for op in kept), "not in order"
assert tap["flight"]["kept"][0]["why"] == why
layers = collections.Counter(op["layer"] for op in kept)
assert all(op["layer"] for op in kept) and (why == "SIGUSR1" or len(layers) == 28)  # a signal may come when little has flown
print("kept are ops of the layers, in order, under their names")
if layer:
    bad = tap["flight"]["first_bad"]
    op = next(op for op in ops if op["op"] == bad["op"])
    assert op["layer"] == bad["layer"] == layer and op["flight"] == why and not bad["inputs_not_finite"]
    assert any(o["step"] < op["step"] for o in kept), "nothing of the steps before"
    print("the first bad op is one of them, and steps before it are there")
