"""show.py FIXTURE - print each distinct status and reason of a replay once."""
import json, subprocess, sys

text = subprocess.run(["zstd", "-dcq", sys.argv[1] + "/ops.jsonl.zst"], capture_output=True, check=True).stdout
seen = {}
for line in text.splitlines():
    o = json.loads(line)
    j, e = o["judge"], o["judge"]["candidate"] or {}
    reason = j.get("reason", "").replace(" (Segmentation fault)", "")
    if "TD_KERNEL" in reason:
        reason = reason[reason.index("td_gptq_gemm"):]
    score = e.get("score", "none")
    word = score if isinstance(score, str) else "right" if score < 4 else "wrong"
    key = (j["status"], "score " + word, "unstable" if e.get("unstable") else "", "crash" if "crash" in e else "",
           "".join(c for c in reason if not c.isdigit()))
    seen[key] = seen.get(key, 0) + 1
for key, n in sorted(seen.items()):
    print("  %d x" % n, *[k for k in key if k])
