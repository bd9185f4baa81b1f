# look.py ROOT FIXTURE: whose rows the steps are, and whether ops, steps and exchanges hold together
# SPDX-License-Identifier: Apache-2.0
import collections
import json
import sys

sys.path.insert(0, sys.argv[1] + "/tests")
from edit_fixture import records

fixture = sys.argv[2]
manifest = json.load(open(f"{fixture}/manifest.json"))
exchanges, steps, ops = (records(fixture, s) for s in ("exchanges", "steps", "ops"))
layers, by_step = {o["layer"] for o in ops}, collections.defaultdict(list)
for o in ops:
    by_step[o["step"]].append(o)
last = max(s["step"] for s in steps)  # it may have been computed while the recording ended
whole = [s for s in steps if s["step"] == last or sorted(o["layer"] for o in by_step[s["step"]]) == sorted(layers)]
print(len(layers), "layers,", "each step has each of them once," if whole == steps else f"{len(whole)} of {len(steps)} steps are whole,",
      "its rows are those of its requests:", all(o["attrs"]["m"] == sum(p["rows"] for p in s["spans"]) for s in steps for o in by_step[s["step"]]),
      {s["how"] for s in steps})
rows, strange = collections.Counter(), 0
for s in sorted(steps, key=lambda s: s["step"]):
    for p in s["spans"]:
        if p["stream"] < 0:
            strange += p["rows"]
            continue
        assert p["position"] == rows[p["stream"]], p
        rows[p["stream"]] += p["rows"]
exact = [x for x in exchanges if rows[x["stream"]] == x["usage"]["prompt_tokens"] + x["usage"]["completion_tokens"] - 1]
print(len(exchanges), "exchanges,", {x["phase"] for x in exchanges}, len(exact), "have all their rows;", "rows of nobody:", strange > 0)
times = [(int(s["t_ns"]), [x for x in exchanges if any(p["stream"] == x["stream"] for p in s["spans"])]) for s in steps]
print("on the packets' clock:", all(int(x["t_sent_ns"]) - 5e6 < t < int(x["t_end_ns"]) + 5e6 for t, xs in times for x in xs))
print(manifest["state"], manifest["plan"], manifest["seen"], manifest.get("capture", {}).get("clock"), manifest["tap"]["mode"]["take"])
