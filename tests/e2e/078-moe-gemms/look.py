"""What a recording holds of products with experts: forms, layers, and how their numbers agree."""
import collections, json, subprocess, sys

folder = sys.argv[1]
ops = [json.loads(line) for line in subprocess.run(["zstd", "-dcq", folder + "/ops.jsonl.zst"], capture_output=True, text=True).stdout.splitlines()]
manifest = json.load(open(folder + "/manifest.json"))
forms, layers = collections.Counter(), collections.Counter()
for op in ops:
    a, shapes = op["attrs"], {t["role"]: t["shape"] for t in op["in"] + [op["out"]]}
    forms[(op["kind"], op["impl"]["symbol"], op["impl"]["layout"], op["act_rounding"])] += 1
    layers[(op.get("layer") or "(no name)", json.dumps({k: v for k, v in a.items() if k != "m"}), json.dumps({r: shapes[r] for r in ("qweight", "qzeros", "scales")}))] += 1
    if shapes["c"] != [a["m"] * a["top_k"], a["n"]] or shapes["a"] != [a["m"], a["k"]] or shapes["num_tokens_post_padded"] != [1]:
        print("WRONG:", a, shapes)
for form in sorted(forms):
    print("form:", *form)
print("roles:", " / ".join(dict.fromkeys(" ".join(t["role"] for t in op["in"]) for op in ops)))
for layer in sorted(layers):
    print("layer:", *layer)
print("ops of a layer:", sorted(set(layers.values())) == [len(ops) // len(layers)])
operators = {o["name"]: o["calls"] for o in manifest["tap"]["operators"]}
print("calls equal the ops:", [operators[s] for s in {op["impl"]["symbol"] for op in ops}] == [len(ops)] and len(ops) > 0)
