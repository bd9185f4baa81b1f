"""look.py FIXTURE: are the sums of tap.gpu_time its kernels' sums, and is each kernel what it should be?"""
import json
import sys

t = json.load(open(sys.argv[1] + "/manifest.json"))["tap"]["gpu_time"]
kernels = t["kernels"]
assert sum(k["launches"] for k in kernels) == t["launches"] > 0, t
assert abs(sum(k["ms"] for k in kernels) - t["ms"]) < 1e-6, t
assert [k["ms"] for k in kernels] == sorted((k["ms"] for k in kernels), reverse=True), t
assert t["lost"] == 0 and "why" not in t, t
for k in kernels:
    assert k["seen"] == ("recorded" if "gptq" in k["symbol"] else "not recorded"), k
    assert abs(k["ms"] - k["launches"] / 1000) < 1e-6, k  # the fake's kernels take 1 us
assert any(k["seen"] == "recorded" for k in kernels), t
print("each kernel is what it should be")
