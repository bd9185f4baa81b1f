"""What a recording holds of products of 8-bit numbers: by operator, attributes, and each tensor's type and number of dimensions."""
import collections
import json
import subprocess
import sys

lines = subprocess.run(["zstd", "-dcq", sys.argv[1] + "/ops.jsonl.zst"], capture_output=True, text=True, check=True).stdout.splitlines()
forms = collections.Counter()
for op in map(json.loads, lines):
    tensors = " ".join(f"{t['role']}:{t['dtype']}:{len(t['shape'])}{'=1' if t['shape'] == [1] and op['attrs']['m'] > 1 else ''}" for t in op["in"] + [op["out"]])
    forms[(op["kind"], op["impl"]["symbol"], op["attrs"].get("block", 0), op["attrs"]["m"] > 1, tensors)] += 1
for (kind, symbol, block, many, tensors), n in sorted(forms.items()):
    print(n, kind, symbol, f"block {block}", "rows" if many else "a row", tensors)
operators = json.load(open(sys.argv[1] + "/manifest.json"))["tap"]["operators"]
print({o["name"]: o["recorded"] for o in operators}, sum(o["calls"] for o in operators if o["recorded"]) == len(lines))
