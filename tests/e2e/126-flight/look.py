# look.py - is what the flight recorder kept whole, in order, and balanced? With nothing of Tapedeck's.
# usage: look.py FIXTURE [WHY [LAYER]]
# SPDX-License-Identifier: Apache-2.0
import collections, json, subprocess, sys

fixture, why, layer = (sys.argv[1:] + [None, None])[:3]


def rows(name):
    raw = subprocess.run(["zstd", "-dcq", f"{fixture}/{name}.jsonl.zst"], capture_output=True).stdout.decode()
    return [json.loads(line) for line in raw.splitlines()]


m = json.load(open(f"{fixture}/manifest.json"))
sums, ops, steps = m["ledger"], rows("ops"), rows("steps")
count = lambda name: sums.get(name, {"n": 0})["n"]
for what in "ops", "steps":
    assert count(f"{what}.seen") == count(f"{what}.kept") + sum(v["n"] for k, v in sums.items() if k.startswith(f"{what}.dropped.")), sums
assert count("ops.kept") == len(ops) and count("steps.kept") == len(steps) == len({s["step"] for s in steps})
print("ledger balances")
kept = [op for op in ops if op.get("flight")]
assert {op["step"] for op in ops} <= {s["step"] for s in steps}
if not why:
    assert not kept and "flight" not in m["tap"] and not count("ops.dropped.flight")
    sys.exit(print("nothing was kept, and nothing flew"))
assert kept and all(op["flight"] == why for op in kept)
assert [op["t_ns"] for op in kept] == sorted(op["t_ns"] for op in kept), "not in order"
assert m["tap"]["flight"]["kept"][0]["why"] == why
layers = collections.Counter(op["layer"] for op in kept)
assert all(op["layer"] for op in kept) and (why == "SIGUSR1" or len(layers) == 28)  # a signal may come when little has flown
print("kept are ops of the layers, in order, under their names")
if layer:
    bad = m["tap"]["flight"]["first_bad"]
    op = next(op for op in ops if op["op"] == bad["op"])
    assert op["layer"] == bad["layer"] == layer and op["flight"] == why and not bad["inputs_not_finite"]
    assert any(o["step"] < op["step"] for o in kept), "nothing of the passes before"
    print("the first bad op is one of them, and passes before it are there")
