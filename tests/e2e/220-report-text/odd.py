"""odd.py SAMPLE DIR N - N reports made of one by putting odd values into it: texts that are long, wide,
empty or full of control characters, numbers that are huge, negative or none, lists that are long,
members that are missing. The seed is fixed.
SPDX-License-Identifier: Apache-2.0
"""
import copy
import json
import os
import random
import sys

TEXTS = ["", "x" * 3000, "word " * 400, "\u6f22\u5b57" * 200, "a\u0301" * 150, "\x1b[31mred\x1b[0m\r\n\t", "\u202eabc", "/a/path/" * 40, "%s%n", "\u0000nul"]
NUMBERS = [0, -1, 1e300, 123456789012345, "NaN", "Infinity", "-Infinity", None]
KEPT = {"schema", "verdict", "exit", "headline", "asked"}


def spoil(v, rate, key=None):
    if key in KEPT:
        return v
    if isinstance(v, dict):
        return {k: spoil(x, rate, k) for k, x in v.items() if k in KEPT or random.random() > rate / 8}
    if isinstance(v, list):
        v = [spoil(x, rate) for x in v if random.random() > rate / 8]
        return v * 40 if v and random.random() < rate / 2 and len(str(v)) < 10000 else v
    if random.random() > rate:
        return v
    return random.choice(TEXTS) if isinstance(v, str) else random.choice(NUMBERS) if not isinstance(v, bool) else v


random.seed(1)
sample, folder, n = json.load(open(sys.argv[1])), sys.argv[2], int(sys.argv[3])
os.makedirs(folder)
for i in range(n):
    r = spoil(copy.deepcopy(sample), random.choice([0.05, 0.3, 1]))
    r["line"] = "verdict: %s %s" % (r["verdict"], "figure=1/2 " * random.choice([0, 3, 30]))
    if not isinstance(r.get("names"), dict):
        r["names"] = {"old": "x", "new": random.choice(TEXTS)}
    json.dump(r, open(f"{folder}/{i}.json", "w"))
