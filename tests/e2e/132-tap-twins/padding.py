# padding.py - how many rows of padding each inferred step has: of a graph of 28 rows for a prompt of 20. usage: padding.py FIXTURE
# SPDX-License-Identifier: Apache-2.0
import json
import subprocess
import sys

lines = subprocess.run(["zstd", "-dcq", sys.argv[1] + "/steps.jsonl.zst"], capture_output=True, text=True, check=True).stdout.splitlines()
steps = [s for s in map(json.loads, lines) if s.get("how") == "inferred"]
print(*sorted({(sum(p["rows"] for p in s["spans"]), s.get("padding")) for s in steps}))
