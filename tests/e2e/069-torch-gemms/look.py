"""What a recording holds of operators: by kind, symbol, layout and layer, and how their numbers
agree."""
import collections, json, subprocess, sys

folder = sys.argv[1]
ops = [json.loads(line) for line in subprocess.run(["zstd", "-dcq", folder + "/ops.jsonl.zst"], capture_output=True, text=True).stdout.splitlines()]
manifest = json.load(open(folder + "/manifest.json"))
how = collections.Counter()
layers = collections.Counter()
for op in ops:
    if op.get("type") not in (None, "op"):
        continue
    impl = op["impl"]
    how[(op["kind"], impl["symbol"], impl.get("layout"), op["act_rounding"], tuple(t["role"] for t in op["in"]))] += 1
    layers[op.get("layer") or "(no name)"] += 1
for key, n in sorted(how.items()):
    print("ops of one form:" if n else "", *key)
print("layers:", len(layers), "ops each:", sorted(set(layers.values())), sorted(layers)[:3])
operators = {o["name"]: o["calls"] for o in manifest["tap"]["operators"]}
print("calls of machete_mm equal the ops:", operators["_C::machete_mm"] == sum(how.values()))
print("operators:", sorted(operators))
