# look.py - check that a recording of an AMD GPU is consistent; uses no code of Tapedeck.
# usage: look.py FIXTURE
# SPDX-License-Identifier: Apache-2.0
import sys

sys.path.append(sys.path[0] + "/../..")
from recorded import Recorded

fixture = Recorded(sys.argv[1])
ops, count = fixture.ops, fixture.count
fixture.balance()
assert len(ops) == count("ops.seen")
print("ledger balances; every step holds every layer once, in order, under its name:", len(fixture.layers()))
assert sum(op["attrs"]["m"] == 60 for op in ops) == 28
fixture.launches()
assert any("vectorized_elementwise_kernel" in k["symbol"] for k in fixture.tap["kernels"] if not k["recorded"])
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
