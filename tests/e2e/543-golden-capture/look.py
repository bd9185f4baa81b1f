# look.py ROOT GOLDEN FIXTURE: the exchanges of the golden fixture, those recorded again, and what the client received
# SPDX-License-Identifier: Apache-2.0
import json
import sys

sys.path.insert(0, sys.argv[1] + "/tests")
from edit_fixture import records


def exchanges(folder):
    return sorted(records(folder), key=lambda x: int(x["t_sent_ns"]))


golden, again = exchanges(f"{sys.argv[2]}/v1-llamacpp-wire"), exchanges(sys.argv[3])
# a later version may add members
wrong = [(old["stream"], k) for old, new in zip(golden, again) for k in old if old[k] != new.get(k)]
print(len(golden), "exchanges,", len(again), "again;", "members that differ:", wrong)
received = [json.loads(line) for line in open(f"{sys.argv[2]}/capture-llamacpp/answers.jsonl", encoding="utf8")]
of_client = sorted((r["path"], r["status"], r["text"]) for r in received)
of_wire = sorted((x["path"], x["http_status"], x.get("text", "")) for x in golden)
print("paths, status and text are the client's:", of_client == of_wire)
for r in received:
    x = next(x for x in golden if (x["path"], x["http_status"], x.get("text", "")) == (r["path"], r["status"], r["text"]))
    assert r["completion_tokens"] in (None, x["usage"]["completion_tokens"]) and r["prompt_tokens"] in (None, x["usage"]["prompt_tokens"])
for x in golden:
    t = [int(x["t_sent_ns"]), int(x["t_first_byte_ns"])] + [int(e[0]) for e in x["events"]] + [int(x["t_end_ns"])]
    first = f"first token after {(t[2] - t[0]) // 10**6} ms" if x["events"] else x["error_kind"]
    print(x["path"], "streamed" if x["request"].get("stream") else "whole", x["http_status"], x["n_tokens"], "tokens in", len(x["events"]),
          "events,", first, "" if t == sorted(t) else "OUT OF ORDER", repr(x.get("text", "")[:24]))
