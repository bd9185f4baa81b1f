# look.py - does what the tap recorded of an AMD GPU hold together? With nothing of Tapedeck's.
# usage: look.py FIXTURE
# SPDX-License-Identifier: Apache-2.0
import collections, json, subprocess, sys

fixture = sys.argv[1]


def rows(name):
    raw = subprocess.run(["zstd", "-dcq", f"{fixture}/{name}.jsonl.zst"], capture_output=True).stdout.decode()
    return [json.loads(line) for line in raw.splitlines()]


m = json.load(open(f"{fixture}/manifest.json"))
sums, ops, steps = m["ledger"], rows("ops"), rows("steps")
count = lambda name: sums.get(name, {"n": 0})["n"]
for what in "ops", "steps":
    assert count(f"{what}.seen") == count(f"{what}.kept") + sum(v["n"] for k, v in sums.items() if k.startswith(f"{what}.dropped.")), sums
assert count("ops.kept") == len(ops) == count("ops.seen") and count("steps.kept") == len(steps)
by_step = collections.defaultdict(list)
for op in ops:
    by_step[op["step"]].append(op)
layers = [op["layer"] for op in by_step[steps[0]["step"]]]
assert len(set(layers)) == 28 and all([op["layer"] for op in by_step[s["step"]]] == layers for s in steps)
print("ledger balances; every step holds every layer once, in order, under its name:", len(layers))
assert sum(op["attrs"]["m"] == 60 for op in ops) == 28
launches = sum(len(op["impl"]["launches"]) for op in ops)
kernels = m["tap"]["kernels"]
assert launches == count("launches.known") == sum(k["launches"] for k in kernels if k["recorded"])
assert sum(k["launches"] for k in kernels) == count("launches.seen")
assert any("vectorized_elementwise_kernel" in k["symbol"] for k in kernels if not k["recorded"])
print("launches of ops are those that were seen; others are counted by name")
for op in ops:  # every third layer is launched by a stub, by kernelParams, by work-items and a packed block: no difference
    n, k, r = op["attrs"]["n"], op["attrs"]["k"], 0
    if op["attrs"]["m"] == 60:
        assert [l.get("symbol") for l in op["impl"]["launches"]] == [None, "hipblasHgemm"] and "reconstruct_exllama" in op["impl"]["symbol"]
        continue
    for l in op["impl"]["launches"]:
        block_rows = int((l.get("symbol") or op["impl"]["symbol"]).split("ILb1ELi")[1].split("E")[0])
        assert l["rows"][0] == r and l["block"] == [128, 1, 1]
        r = l["rows"][1]
        assert l["grid"] == [-(-n // 512), -(-(r - l["rows"][0]) // block_rows), -(-k // 128)], l
    assert r == op["attrs"]["m"] and op["kind"] == "gptq_gemm" and op["impl"]["layout"] == "exllama"
print("grids and rows are those of the launches; rows of the steps:", sorted({op["attrs"]["m"] for op in ops}))
