"""What a recording holds beside products: by kind, output, tensors, how many, and of which layers."""
import collections
import json
import subprocess
import sys

ops = [json.loads(line) for line in subprocess.run(["zstd", "-dcq", sys.argv[1] + "/ops.jsonl.zst"], capture_output=True, text=True, check=True).stdout.splitlines()]
forms, layers = collections.Counter(), collections.defaultdict(set)
for op in ops:
    if "k" in op["attrs"]:
        continue
    tensors = " ".join(f"{t['role']}:{t['dtype']}:{len(t['shape'])}" for t in op["in"] + [op["out"]])
    attrs = " ".join(f"{k}={v}" for k, v in sorted(op["attrs"].items()) if k != "m")
    key = (op["impl"]["symbol"], op["kind"], attrs, tensors)
    forms[key] += 1
    layers[key].add(op.get("layer", "(no layer)").replace("model.layers.", ""))
for key, n in sorted(forms.items()):
    print(n, *key, sorted(layers[key])[:2])
steps = {op["step"] for op in ops}
first = [min((op for op in ops if op["step"] == s), key=lambda op: op["seq"])["kind"] for s in sorted(steps)]
print("ops", len(ops), "steps", len(steps), "each begins with", sorted(set(first)))
