"""Are the ops of twins those of a server without graphs? usage: look.py EAGER TWINS"""
import json
import subprocess
import sys


def ops_of(folder):
    text = subprocess.run(["zstd", "-dcq", folder + "/ops.jsonl.zst"], capture_output=True, text=True, check=True).stdout
    return [op for op in map(json.loads, text.splitlines()) if op.get("type") in (None, "op")]


def meaning(op):
    """All but where and when, and how it was launched."""
    impl = {k: v for k, v in op["impl"].items() if k not in ("duration_ns", "image", "launches")}
    return json.dumps([op["kind"], op.get("layer"), op["attrs"], op["act_rounding"], impl, sorted([t["role"], t["dtype"], t["shape"], t["strides"], t.get("blob")] for t in op["in"]),
                       op["out"]["blob"]], sort_keys=True)


eager, twins = ops_of(sys.argv[1]), ops_of(sys.argv[2])
known = set(map(meaning, eager))
strange = [op for op in twins if meaning(op) not in known]
print("ops that a server without graphs does not have:", strange[:1] or "none")
assert len(set(map(meaning, twins))) == len(twins)
print("symbols:", *{op["impl"]["symbol"] for op in twins})
print("forms:", *sorted({(op["attrs"]["m"], op["attrs"]["act_order"], op["act_rounding"], len(op["impl"]["launches"])) for op in twins}))
print("launched by a graph:", all(launch.get("graph") for op in twins for launch in op["impl"]["launches"]))
steps = {}
for op in twins:
    steps.setdefault(op["step"], []).append(op["layer"])
assert len({tuple(s) for s in steps.values()}) == 1
print("layers in each step:", len(next(iter(steps.values()))))
