#!/usr/bin/env python3
"""torch_counts.py FIXTURE - what the tap counted of the operators of torch_ops.c: names, dispatch
keys, calls, and the bytes of their tensors, which it reads by their schemas.

Each round of fake_ops_run() makes the calls below; how many rounds there were does not matter.
SPDX-License-Identifier: Apache-2.0
"""
import json
import sys

ROUND = {  # calls, bytes; those for Meta compute nothing and are not seen
    "td_live::scale": (3, 2 * 4 * 4 + 0 + 4 * 4),  # two rows, none, and one of twice
    "td_live::fill": (1, 4 * 4),
    "td_live::twice": (1, 4 * 4),
    "td_live::refuse": (1, 4 * 4),
    "td_live::given": (3, 5 * 4 * 4),  # two of its three calls have an optional tensor
}
seen = json.load(open(sys.argv[1] + "/manifest.json"))["tap"].get("operators") or sys.exit("no operator was counted")
rounds = next((o["calls"] for o in seen if o["name"] == "td_live::fill"), 0)
if not rounds:
    sys.exit("td_live::fill was not counted")
want = sorted((name, "CPU", calls * rounds, size * rounds, False) for name, (calls, size) in ROUND.items())
got = sorted((o["name"], o["dispatch"], o["calls"], o["bytes"], o["recorded"]) for o in seen)
if got != want:
    sys.exit(f"counted {got}, expected {want}")
print(f"{len(got)} operators, {sum(o[2] for o in got)} calls: names, keys, calls and bytes as they were made")
