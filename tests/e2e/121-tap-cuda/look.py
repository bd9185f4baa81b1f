# look.py - does what the tap recorded of a GPU hold together? With nothing of Tapedeck's.
# usage: look.py FIXTURE [sampled]
# SPDX-License-Identifier: Apache-2.0
import collections, json, subprocess, sys

fixture, sampled = sys.argv[1], len(sys.argv) > 2


def rows(name):
    raw = subprocess.run(["zstd", "-dcq", f"{fixture}/{name}.jsonl.zst"], capture_output=True).stdout.decode()
    return [json.loads(line) for line in raw.splitlines()]


m = json.load(open(f"{fixture}/manifest.json"))
sums, ops, steps, exchanges = m["ledger"], rows("ops"), rows("steps"), rows("exchanges")
count = lambda name: sums.get(name, {"n": 0})["n"]
for what in "ops", "steps":
    assert count(f"{what}.seen") == count(f"{what}.kept") + sum(v["n"] for k, v in sums.items() if k.startswith(f"{what}.dropped.")), sums
assert count("ops.kept") == len(ops) and count("steps.kept") == len(steps)
print("ledger balances")

by_step = collections.defaultdict(list)
for op in ops:
    by_step[op["step"]].append(op)
layers = [op["layer"] for op in by_step[steps[0]["step"]]]
assert len(set(layers)) == 28 and set(by_step) == {s["step"] for s in steps}
assert all([op["layer"] for op in by_step[s["step"]]] == layers for s in steps)
print("every step holds every layer once, in order, under its name:", len(layers))
if not sampled:  # a pass for each prompt and each event of an answer; the fake server's events are its tokens, a comment, usage and [DONE]
    tapped = [e for e in exchanges if e["phase"] == "tapped"]
    assert len(ops) == len(layers) * len(steps) == count("ops.seen")
    launches = sum(len(op["impl"]["launches"]) for op in ops)
    known = sum(k["launches"] for k in m["tap"]["kernels"] if k["recorded"])
    assert launches == known == count("launches.known"), (launches, known)
    assert sum(k["launches"] for k in m["tap"]["kernels"]) == count("launches.seen")
    print("launches of ops are those that were seen")
    rows_of = collections.Counter(op["attrs"]["m"] for op in ops if op["layer"] == layers[0])
    print("rows of the steps:", sorted(r for r in rows_of if r > 1), "and 1")
    whole = [op for op in ops if op["attrs"]["m"] == 60]
    assert len(whole) == len(layers) and all([l.get("symbol") for l in op["impl"]["launches"]] == [None, "cublasHgemm"] for op in whole)
    assert all(op["act_rounding"] == ("weight-f16" if op["attrs"]["m"] == 60 else "none") for op in ops)
    print("60 rows are reconstruct_exllama and cublasHgemm")
for op in ops:
    where = 0
    if op["attrs"]["m"] == 60:
        continue
    for l in op["impl"]["launches"]:
        assert l["rows"][0] == where and l["rows"][1] > where
        where = l["rows"][1]
    assert where == op["attrs"]["m"] and op["impl"]["layout"] == "exllama" and op["kind"] == "gptq_gemm"
joined = [op for op in ops if op["attrs"]["m"] == 20]
if not sampled:
    assert joined and all([l["rows"] for l in op["impl"]["launches"]] == [[0, 16], [16, 20]] for op in joined)
    assert all("Li8E" in op["impl"]["symbol"] and "Li4E" in op["impl"]["launches"][1]["symbol"] for op in joined)
    print("20 rows are launches of 16 and 4")
