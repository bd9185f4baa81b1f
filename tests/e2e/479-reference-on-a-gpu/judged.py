"""Print the judgement of each op, in the order of the recording, without durations and without who computed its reference."""
import json
import sys

ops = [json.loads(line) for line in sys.stdin if line.strip()]
for op in sorted(ops, key=lambda o: o["op"]):
    judge = op.get("judge") or {}
    print(op["op"], json.dumps({k: v for k, v in judge.items() if k not in ("speed", "by_gpu")}, sort_keys=True))
