"""look.py FIXTURE - the forms of ops: kind, symbol, layout, rounding, roles; and how many of each have a layer's name."""
import collections
import json
import subprocess
import sys

text = subprocess.run(["zstd", "-dcq", sys.argv[1] + "/ops.jsonl.zst"], capture_output=True, check=True, text=True).stdout
forms, named = collections.Counter(), collections.Counter()
for op in map(json.loads, text.splitlines()):
    if op.get("type") in (None, "op"):
        key = (op["kind"], op["impl"]["symbol"], op["impl"].get("layout"), op["act_rounding"], tuple(t["role"] for t in op["in"]))
        forms[key] += 1
        named[key] += bool(op.get("layer"))
for key, n in sorted(forms.items()):
    print("ops of one form:", *key, "all named" if named[key] == n else f"{named[key]} named")
