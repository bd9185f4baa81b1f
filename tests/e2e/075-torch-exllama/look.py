"""Are the ops of an operator those that its launches make? usage: look.py LAUNCHES OPERATOR [alone]
alone: its launches were not watched."""
import collections
import json
import subprocess
import sys


def ops_of(folder):
    text = subprocess.run(["zstd", "-dcq", folder + "/ops.jsonl.zst"], capture_output=True, text=True, check=True).stdout
    return [op for op in map(json.loads, text.splitlines()) if op.get("type") in (None, "op")]


def meaning(op):
    """All but where and when."""
    impl = {k: v for k, v in op["impl"].items() if k not in ("duration_ns", "image") and not (alone and k in ("symbol", "launches"))}
    return json.dumps([op["kind"], op.get("layer"), op["attrs"], op["act_rounding"], impl, sorted([t["role"], t["dtype"], t["shape"], t["strides"], t.get("blob")] for t in op["in"]),
                       op["out"]["blob"]], sort_keys=True)


alone = len(sys.argv) > 3
launches, operator = ops_of(sys.argv[1]), ops_of(sys.argv[2])
same = collections.Counter(map(meaning, launches)) == collections.Counter(map(meaning, operator))
print(len(launches), "ops by launches,", len(operator), "by the operator: the same" if same else "by the operator: NOT the same")
if not same:
    a, b = collections.Counter(map(meaning, launches)), collections.Counter(map(meaning, operator))
    print("only by launches:", next(iter(a - b), None), "\nonly by the operator:", next(iter(b - a), None))
print("symbols:", len({op["impl"]["symbol"] for op in launches}), "and", len({op["impl"]["symbol"] for op in operator}))
print("forms:", *sorted({(op["attrs"]["m"], op["attrs"]["act_order"], op["act_rounding"], len(op["impl"]["launches"])) for op in operator}))
calls = {o["name"]: o["calls"] for o in json.load(open(sys.argv[2] + "/manifest.json"))["tap"]["operators"]}
print("calls of gptq_gemm equal the ops:", calls["_C::gptq_gemm"] == len(operator))
