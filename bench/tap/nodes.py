# nodes.py - what copies in CUDA graphs cost (record --graphs): two vLLM servers on one GPU, with and without, asked in turn. Asserts nothing.
# usage: GRAPHS=1 nodes.py PYTHON MODEL TAP_LIBRARY PAIRS       two equal servers differ too: run it again with SAME=1, where neither has copies
# SPDX-License-Identifier: Apache-2.0
import os, random, statistics, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers

python, model, tap, pairs = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
os.environ.pop("TD_TAP_GRAPHS", None)
without = servers.vllm_gpu(python, model, tap)
if not os.environ.get("SAME"):
    os.environ["TD_TAP_GRAPHS"] = os.environ.get("MIB", "256")
copies = servers.vllm_gpu(python, model, tap)
ratios = []
try:
    for s in (without, copies):
        s.measure(1)
    for i in range(pairs):
        first, second = (without, copies) if i % 2 else (copies, without)
        a, b = first.measure(1)[0], second.measure(1)[0]
        ratios.append(b / a if first is without else a / b)
finally:
    without.stop()
    copies.stop()
random.seed(1)
medians = sorted(statistics.median(random.choices(ratios, k=len(ratios))) for _ in range(2000))
print(f"decode speed with copies / without: median {statistics.median(ratios):.4f} (95 % {medians[50]:.4f} to {medians[1949]:.4f}), {len(ratios)} pairs")
