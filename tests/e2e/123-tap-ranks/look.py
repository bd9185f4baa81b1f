# look.py - check a fixture of two ranks: two streams of ops, each with its slices; uses no code of Tapedeck.
# SPDX-License-Identifier: Apache-2.0
import collections, sys

sys.path.append(sys.path[0] + "/../..")
from recorded import Recorded

fixture = Recorded(sys.argv[1])
ops, steps = fixture.ops, fixture.steps
ranks = {p["pid"]: p for p in fixture.tap["processes"] if "rank" in p}
print("processes:", sorted((p["title"], p["rank"], p["build"]) for p in ranks.values()))
assert len(ranks) == 2 and all(op["rank"] == ranks[op["pid"]]["rank"] for op in ops)
for pid, p in ranks.items():
    mine = [op for op in ops if op["pid"] == pid]
    by_step = collections.defaultdict(list)
    for op in mine:
        by_step[op["step"]].append(op["layer"])
    layers = by_step[min(by_step)]
    assert len(set(layers)) == 28 and all(by_step[s] == layers for s in by_step), "a step holds every layer of its rank once, in order"
    assert set(by_step) == {s["step"] for s in steps if s["pid"] == pid}
    assert [op["seq"] for op in mine] == sorted(op["seq"] for op in mine)
    for op in mine:
        q = next(t for t in op["in"] if t["role"] == "qweight")
        (k0, k1), (n0, n1) = q["ref"]["slice"]
        half = (k0 == p["rank"] * (k1 - k0) and n0 == 0) if op["layer"].endswith(("o_proj", "down_proj")) else (n0 == p["rank"] * (n1 - n0) and k0 == 0)
        assert half and [k1 - k0, n1 - n0] == q["shape"], (op["layer"], q["ref"])
print("ops of each rank:", sorted(collections.Counter(op["rank"] for op in ops).values()), "steps alike:", len({s["step"] for s in steps}) * 2 == len(steps))
