import collections, json, subprocess, sys
report = json.load(open(sys.argv[1]))
lane = report["lanes"]["ops"]
print("lane", lane["verdict"])
for note in lane["notes"]:
    if note["verdict"] != "note":
        print(" ", note["verdict"] + ":", note["text"])
text = subprocess.run(["zstd", "-dcq", sys.argv[2] + "/ops.jsonl.zst"], stdout=subprocess.PIPE, check=True).stdout
n = collections.Counter()
for op in map(json.loads, text.splitlines()):
    n[op["judge"]["status"], op["judge"].get("stage", "-")] += 1
for key in sorted(n):
    print(" ", n[key], *key)
