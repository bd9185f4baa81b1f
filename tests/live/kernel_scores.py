"""kernel_scores.py < ops.jsonl - scores of a replay by kind and rounding; exit 1 when an op is
wrong, failed or missing a reason."""
import collections
import json
import sys

groups, bad = collections.defaultdict(list), 0
for o in map(json.loads, sys.stdin):
    j, e = o["judge"], o["judge"]["candidate"] or {}
    if j["status"] == "unsupported":
        groups[o["kind"], "unsupported: " + j["reason"]].append(None)
        bad += not j["reason"]
        continue
    good = j["status"] == "ok" and isinstance(e.get("score"), float) and e["score"] < 4 and not e["unstable"]
    bad += not good
    groups[o["kind"], o["act_rounding"] + ("" if good else ", BAD: " + j.get("reason", ""))].append(e)
for (kind, what), found in sorted(groups.items()):
    scores = [e["score"] for e in found if e and isinstance(e.get("score"), float)]
    if scores:
        print(f"{kind} {what}: {len(found)} ops, worst score {max(scores):.3g}, relative L2 to R1 at most {max(e['rel_l2'] for e in found):.2e},"
              f" to R0 {max(e['r0_rel_l2'] for e in found):.2e}")
    else:
        print(f"{kind} {what}: {len(found)} ops")
sys.exit(1 if bad or not groups else 0)
