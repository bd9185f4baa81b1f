"""What a recording holds: ops by kind, symbol, rows and launches; their layers; calls of operators."""
import collections, json, subprocess, sys

folder = sys.argv[1]
try:
    lines = subprocess.run(["zstd", "-dcq", folder + "/ops.jsonl.zst"], capture_output=True, text=True).stdout.splitlines()
    manifest = json.load(open(folder + "/manifest.json"))
except OSError:
    sys.exit()
how, layers = collections.Counter(), collections.Counter()
for op in (op for op in map(json.loads, lines) if op.get("type") in (None, "op")):
    launches = "+".join((x.get("symbol") or "it") for x in op["impl"].get("launches", []))
    how[(op["kind"], op["impl"]["symbol"][:40], op["impl"].get("layout"), op["act_rounding"], op["attrs"]["m"], launches[:60])] += 1
    layers[op.get("layer") or "(no name)"] += 1
for key, n in sorted(how.items(), key=str):
    print(n, *key)
print("layers:", len(layers), "fronts:", manifest["tap"]["processes"][0]["fronts"])
print({o["name"]: (o["calls"], o["recorded"]) for o in manifest["tap"].get("operators", []) if o["name"] != "_C::mm"})
