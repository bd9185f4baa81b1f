"""operator_cost.py - what Machete's operators cost with the tap asleep, and without it.

usage: operator_cost.py LIBRARY [ENVIRONMENT]...
LIBRARY is vLLM's _C_stable_libtorch.abi3.so; ENVIRONMENT are the lines NAME=VALUE that load the tap
(record --tap-env). Processes with and without the tap take turns; each repacks a weight of 4096 x
4096 a hundred times, and multiplies a row by it 4,000 times. Prints the medians of each process and
their ratio. Needs torch and a Hopper GPU.
SPDX-License-Identifier: Apache-2.0
"""
import os
import statistics
import subprocess
import sys
import time

TURNS, REPACKS, PRODUCTS, SIZE = 3, 100, 4000, 4096
U4B8 = 1125899907892224  # vllm/scalar_type.py: uint4b8.id


def measure(library):
    import torch
    torch.ops.load_library(library)
    words = torch.randint(-2**31, 2**31 - 1, (SIZE, SIZE // 8), dtype=torch.int32, device="cuda").t()
    scales = torch.rand(SIZE // 128, SIZE, dtype=torch.half, device="cuda")
    a = torch.rand(1, SIZE, dtype=torch.half, device="cuda")

    def times(n, call):
        for _ in range(5):
            call()
        torch.cuda.synchronize()
        out = []
        for _ in range(n):
            start = time.perf_counter_ns()
            call()
            torch.cuda.synchronize()
            out.append((time.perf_counter_ns() - start) / 1000)
        return statistics.median(out)

    repack = times(REPACKS, lambda: torch.ops._C.machete_prepack_B(words, torch.half, U4B8, torch.half))
    packed = torch.ops._C.machete_prepack_B(words, torch.half, U4B8, torch.half)
    product = times(PRODUCTS, lambda: torch.ops._C.machete_mm(a, packed, U4B8, None, scales, None, 128, None, None, None))
    print(repack, product)


if sys.argv[1] == "--measure":
    measure(sys.argv[2])
    sys.exit(0)
tap = dict(line.split("=", 1) for line in sys.argv[2:])
rows = {"without": [], "with": []}
for _ in range(TURNS):
    for how, env in (("without", {}), ("with", tap)):
        out = subprocess.run([sys.executable, __file__, "--measure", sys.argv[1]], env=os.environ | env, capture_output=True, text=True)
        if out.returncode:
            sys.exit(out.stderr[-2000:])
        rows[how].append([float(x) for x in out.stdout.split()])
for i, name in enumerate(("machete_prepack_B", "machete_mm")):
    a, b = ([r[i] for r in rows[how]] for how in ("without", "with"))
    print(f"{name}: without {' '.join(f'{x:.1f}' for x in a)} us, with the tap asleep {' '.join(f'{x:.1f}' for x in b)} us; "
          f"ratio of the medians {statistics.median(b) / statistics.median(a):.3f}")
