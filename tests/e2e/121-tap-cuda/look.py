# look.py - check that a fixture which the tap filled on a GPU is consistent; uses no code of Tapedeck.
# usage: look.py FIXTURE [sampled]
# SPDX-License-Identifier: Apache-2.0
import collections, sys

sys.path.append(sys.path[0] + "/../..")
from recorded import Recorded

fixture, sampled = Recorded(sys.argv[1]), len(sys.argv) > 2
ops, steps, count = fixture.ops, fixture.steps, fixture.count
fixture.balance()
print("ledger balances")
layers = fixture.layers()
print("every step holds every layer once, in order, under its name:", len(layers))
# The fake server computes a step for each prompt and for each event of an answer: the tokens, a comment,
# usage and [DONE].
if not sampled:
    assert len(ops) == len(layers) * len(steps) == count("ops.seen")
    fixture.launches()
    print("launches of ops are those that were seen")
    rows_of = collections.Counter(op["attrs"]["m"] for op in ops if op["layer"] == layers[0])
    print("rows of the steps:", sorted(r for r in rows_of if r > 1), "and 1")
    dequantised = [op for op in ops if op["attrs"]["m"] == 60]
    assert len(dequantised) == len(layers) and all([l.get("symbol") for l in op["impl"]["launches"]] == [None, "cublasHgemm"] for op in dequantised)
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
