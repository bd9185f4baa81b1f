"""threads.py ROOT - every unit test that starts threads is run under ThreadSanitizer: tests/threads.list names it, or says in a
comment "Not here: NAME" why not. A test starts threads when it, or a header of tests/unit that it includes, calls
pthread_create() or a function of ours that starts some (STARTERS).
SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import sys

root = sys.argv[1]
# The writer's, the GPU reference's, what runs beside, the judges of a batch, the tap client's pump and heart, the demo's scheduler.
STARTERS = ("pthread_create", "td_writer_create", "td_reference_gpu_start", "td_beside_start", "td_op_judge_batch",
            "td_tap_client_open", "td_engine_open")


def text_of(path):
    with open(os.path.join(root, path), encoding="utf-8") as f:
        text = f.read()
    return text + "".join(text_of(h) for h in re.findall(r'#include "(tests/unit/[^"]+)"', text))


with open(root + "/tests/threads.list", encoding="utf-8") as f:
    lines = f.read().splitlines()
named = {line.split("#")[0].strip() for line in lines} | set(re.findall(r"Not here: ([\w/]+)", "\n".join(lines)))
bad = 0
for at, _, names in sorted(os.walk(root + "/tests/unit")):
    for name in sorted(names):
        test = os.path.relpath(os.path.join(at, name), root + "/tests")[:-2]
        if re.fullmatch(r"test_\w+\.c", name) and test not in named and re.search(rf"\b({'|'.join(STARTERS)})\(", text_of(f"tests/{test}.c")):
            print(f"{test} starts threads, and tests/threads.list does not name it")
            bad += 1
for name in filter(None, (line.split("#")[0].strip() for line in lines)):
    if not os.path.exists(f"{root}/tests/{name}") and not os.path.exists(f"{root}/tests/{name}.c"):
        print(f"tests/threads.list names {name}, and there is no such test")
        bad += 1
if not bad:
    print("tests that start threads are listed")
sys.exit(bad > 0)
