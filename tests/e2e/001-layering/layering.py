"""layering.py ROOT - does every folder include only the folders that its line allows?

A line is "folder: folders that its files may include". A file belongs to the deepest folder that has a line. Its own folder is
always allowed; a name allows that folder alone, a name with /* all folders below it too. docs/architecture.md explains the order.
SPDX-License-Identifier: Apache-2.0
"""
import collections
import os
import re
import sys

RULES = """
common:
common/desc:
format: common common/desc
wire: common format
wire/capture: common format wire
metrics: common format wire
model: common
model/identify: common common/desc format model
kernels:
kernels/abi:
kernels/gpucode: common kernels
kernels/adapters: kernels kernels/gpucode
kernels/simt: common kernels
kernels/ops: common common/desc model kernels kernels/abi
kernels/gemm: kernels/ops
kernels/ggml_mul_mat: kernels/ops
kernels/moe_gemm: kernels/ops
kernels/gptq_any: kernels/ops
kernels/scaled_mm: kernels/ops
kernels/moe_scaled_mm: kernels/ops
kernels/gptq_gemm: common kernels kernels/abi kernels/simt
kernels/gpu: common model kernels/abi kernels/adapters kernels/gpucode kernels/gptq_gemm kernels/ops
kernels/reference: common kernels kernels/gpu kernels/ops kernels/simt
kernels/providers: common model kernels/abi kernels/adapters kernels/gpucode kernels/gptq_gemm kernels/gpu kernels/ops kernels/simt
recorder/tap/core: common/desc kernels/abi
recorder/tap: common/desc recorder/tap/* kernels/abi kernels/adapters kernels/gpucode
recorder/tap/gpu: recorder/tap/core kernels kernels/abi kernels/adapters
recorder/tap/cuda: recorder/tap/core recorder/tap/gpu kernels kernels/abi kernels/adapters
recorder/tap/hip: recorder/tap/core recorder/tap/cuda recorder/tap/gpu kernels kernels/abi kernels/adapters kernels/gpucode
recorder/tap_client: common common/desc format model model/identify recorder/tap/core kernels/gpucode
recorder: common format wire wire/capture model kernels/adapters recorder/tap_client
replayer: common common/desc format wire model kernels kernels/adapters kernels/gpucode kernels/ops kernels/providers kernels/reference
report: common
differ: common common/desc report format wire metrics
fixture: common common/desc format report wire metrics
gate: common format report
demo/server: common model kernels/abi
driver: common
"""
SKIPPED = ("tests", "bench", "demo/bugs", "demo/model", "docs", "build", "bin", "lib", "fixtures")


def allowed(folder, may):
    return any(folder == m or (m.endswith("/*") and (folder + "/").startswith(m[:-1])) for m in may)


def main(root):
    os.chdir(root)
    rules = {k: v.split() for k, v in (line.split(":") for line in RULES.strip().splitlines())}
    bad, names = 0, collections.defaultdict(list)
    for top, folders, files in os.walk("."):
        top = os.path.relpath(top, ".")
        folders[:] = [d for d in folders if not d.startswith(".") and os.path.normpath(os.path.join(top, d)) not in SKIPPED]
        for name in sorted(files):
            if not name.endswith((".c", ".h", ".cu")):
                continue
            path = os.path.normpath(os.path.join(top, name))
            names[name].append(path)
            room = top
            while room and room not in rules:
                room = os.path.dirname(room)
            if not room:
                print(f"{path}: no line of layering.py says what {top} may include")
                bad += 1
                continue
            for inc in re.findall(r'^\s*#\s*include\s+"([^"]*)"', open(path).read(), re.M):
                there = os.path.dirname(inc) if os.path.exists(inc) else os.path.dirname(os.path.normpath(os.path.join(top, inc)))
                if there != top and not allowed(there, [room] + rules[room]):
                    print(f'{path} includes "{inc}", which {room} may not')
                    bad += 1
    for name, paths in sorted(names.items()):
        if len(paths) > 1 and name != "main.c":
            print(f"two files are called {name}: {' '.join(paths)}")
            bad += 1
    if not bad:
        print("layering holds")
    return bad > 0


sys.exit(main(sys.argv[1]))
