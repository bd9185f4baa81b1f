"""show.py FIXTURE - print what a replay wrote, without the parts that differ from run to run."""
import json, subprocess, sys

lines = subprocess.run(["zstd", "-dcq", sys.argv[1] + "/ops.jsonl.zst"], capture_output=True, check=True).stdout.splitlines()
manifest = json.load(open(sys.argv[1] + "/manifest.json"))
print({k: v["n"] for k, v in sorted(manifest["ledger"].items()) if k.startswith("ops.")})
print({k: manifest["replay"].get(k) for k in ("of_dir", "provider", "build", "guard")}, manifest["state"])
for line in sorted((json.loads(l) for l in lines), key=lambda o: o["op"]):
    j = line["judge"]
    e = j["candidate"] or {}
    score = e.get("score")
    print(line["op"], line["origin"]["op"], line["kind"], j["status"], j.get("reason", "")[:60],
          "crash" if e.get("crash") else "right" if score is not None and score < 4 else score if isinstance(score, str) else "wrong" if score else "-",
          "recorded wrong" if (j["recorded"] or {}).get("score", 0) > 4 else "", e.get("repeats"))
