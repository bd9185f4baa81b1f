"""What a recording holds: ops by kind, symbol, rows, launches and inputs; their layers; calls of operators."""
import collections, json, subprocess, sys

folder = sys.argv[1]
lines = subprocess.run(["zstd", "-dcq", folder + "/ops.jsonl.zst"], capture_output=True, text=True).stdout.splitlines()
ops = [op for op in map(json.loads, lines) if op.get("type") in (None, "op")]
how = collections.Counter()
layers = collections.Counter()
for op in ops:
    impl, a = op["impl"], op["attrs"]
    launches = "+".join(x.get("symbol") or "it" for x in impl.get("launches", []))
    how[(op["kind"], impl["symbol"], impl.get("layout"), op["act_rounding"], a["m"] if op["kind"] == "gptq_gemm" else "k rows", launches,
         tuple(t["role"] for t in op["in"]))] += 1
    layers[op.get("layer") or "(no name)"] += 1
for key, n in sorted(how.items(), key=str):
    print(n, *key)
print("layers:", len(layers), "ops each:", sorted(set(layers.values())))
calls = {o["name"]: (o["calls"], o["recorded"]) for o in json.load(open(folder + "/manifest.json"))["tap"]["operators"]}
print({name: calls[name] for name in calls if "awq" in name})
print("steps:", len({op["step"] for op in ops}))
