"""captured_ops.py FIXTURE COUNT [MODEL] - are COUNT exchanges that were captured beside a tap, their steps and their ops in one fixture?

Each exchange must be whole and have all its rows, no step may be nobody's or have rows of two exchanges, each step must have as
many ops as the others, and lie within its exchange's time; the model must be MODEL (model.gguf). The last line says what is there.
SPDX-License-Identifier: Apache-2.0
"""
import collections
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from edit_fixture import records  # noqa: E402

fixture, count, model = sys.argv[1], int(sys.argv[2]), (sys.argv[3:] or ["model.gguf"])[0]
manifest = json.load(open(fixture + "/manifest.json"))
exchanges, steps, ops = (list(records(fixture, s)) for s in ("exchanges", "steps", "ops"))
wrong = []
if manifest["state"] != "complete":
    wrong.append(f"it is {manifest['state']}: {manifest.get('causes')}")
if manifest["server"]["model"] != model:
    wrong.append(f"the model is {manifest['server']['model']}")
if len(exchanges) != count or any(x.get("error") or x["phase"] != "tapped" for x in exchanges):
    wrong.append(f"{len(exchanges)} exchanges, of which {sum('error' in x for x in exchanges)} failed")
of_step = collections.Counter(o["step"] for o in ops)
if not steps or set(of_step) != {s["step"] for s in steps} or len(set(of_step.values())) != 1:
    wrong.append(f"steps have {sorted(set(of_step.values()))} ops")
rows = collections.Counter()
for s in steps:
    for span in s["spans"]:
        rows[span["stream"]] += span["rows"]
        x = next(x for x in exchanges if x["stream"] == span["stream"])
        if not int(x["t_sent_ns"]) - 5e6 < int(s["t_ns"]) < int(x["t_end_ns"]):
            wrong.append(f"step {s['step']} is not of the time of its exchange")
    if s["how"] not in ("exact", "inferred") or len(s["spans"]) != 1:
        wrong.append(f"step {s['step']}: {s['how']}, of {len(s['spans'])} exchanges")
for x in exchanges:
    c, usage = x.get("computed", {}), x.get("usage", {})
    tokens = c.get("prompt", usage.get("prompt_tokens", 0)) + c.get("answer", usage.get("completion_tokens", 0))
    if rows[x["stream"]] != tokens - 1:
        wrong.append(f"exchange {x['stream']}: {rows[x['stream']]} rows of {tokens} tokens")
if wrong:
    sys.exit("; ".join(wrong))
print(f"{len(exchanges)} exchanges of others, {len(ops)} ops in {len(steps)} steps: all their rows are known, and no others came")
