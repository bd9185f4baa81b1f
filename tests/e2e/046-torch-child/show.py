"""show.py FIXTURE - print each op of a replay: layer, rounding, status, whether its numbers are right, reason."""
import json
import subprocess
import sys

text = subprocess.run(["zstd", "-dcq", sys.argv[1] + "/ops.jsonl.zst"], capture_output=True, check=True).stdout
for o in sorted(map(json.loads, text.splitlines()), key=lambda o: o["layer"]):
    j, e = o["judge"], o["judge"]["candidate"] or {}
    score = e.get("score", "none")
    word = score if isinstance(score, str) else "right" if score < 4 else "wrong"
    print(" ", o["layer"], o["act_rounding"], j["status"], word, "unstable" if e.get("unstable") else "stable", j.get("reason", ""))
