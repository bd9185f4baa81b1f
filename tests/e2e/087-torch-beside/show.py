"""show.py FIXTURE - print each op of a replay: layer, status, how far the candidate and the recorded output (numpy's) lie from
the reference, reason. An output that was rounded once lies within one unit."""
import json
import subprocess
import sys


def word(judged):
    if not judged or "score" not in judged:
        return "none"
    score = judged["score"]
    return score if isinstance(score, str) else "exact" if score <= 1.02 else "right" if score < 4 else "wrong"


text = subprocess.run(["zstd", "-dcq", sys.argv[1] + "/ops.jsonl.zst"], capture_output=True, check=True).stdout
for o in sorted(map(json.loads, text.splitlines()), key=lambda o: o["layer"]):
    j = o["judge"]
    print(" ", o["layer"], j["status"], word(j["candidate"]), "numpy's", word(j["recorded"]), j.get("reason", ""))
