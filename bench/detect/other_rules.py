"""other_rules.py - what other rules would have said of the same runs (power.py).

SPDX-License-Identifier: Apache-2.0
Each takes what two fixtures hold and returns True where that rule would fail the new build.

exact_match          every answer has the tokens of the recording's first answer to that prompt
check_logprobs_close vLLM, tests/models/utils.py: where two answers part, each one's token is among the likeliest of the
                     other, at that place; what comes behind is not looked at
torch_close          torch.testing.assert_close on each op's output, with its default tolerances
mean_throughput      the mean of tokens a second falls by more than 5 %
"""
import os
import sys

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests"))
import read_fixture  # noqa: E402

THROUGHPUT = 0.05
TORCH = {"F16": (1e-3, 1e-5), "F32": (1.3e-6, 1e-5)}  # rtol, atol: torch.testing's table of defaults


def records(fixture, name):
    import json

    with open(f"{fixture}/{name}", "rb") as f:
        data = f.read()
    for raw, _ in read_fixture.frames(data, read_fixture.KINDS[name]):
        yield from map(json.loads, raw.splitlines())


def answers(fixture):
    return [x for x in records(fixture, "exchanges.jsonl.zst") if x["phase"] == "timed" and not x.get("error")]


def first_answers(xs):
    first = {}
    for x in xs:
        first.setdefault(x["prompt_id"], x)
    return first


def exact_match(old, new):
    first = first_answers(old)
    return any(x["token_ids"] != first[x["prompt_id"]]["token_ids"] for x in new if x["prompt_id"] in first)


def likeliest(x, at):
    return set(x["top"][at][0::2])


def check_logprobs_close(old, new):
    before, after = first_answers(old), first_answers(new)
    for prompt in before.keys() & after.keys():
        a, b = before[prompt], after[prompt]
        for i, (x, y) in enumerate(zip(a["token_ids"], b["token_ids"])):
            if x == y:
                continue
            if x not in likeliest(b, i) or y not in likeliest(a, i):
                return True
            break
    return False


def tokens_per_s(x):
    return x["n_tokens"] / ((x["t_end_ns"] - x["t_sent_ns"]) * 1e-9)


def mean_throughput(old, new):
    before, after = (numpy.mean([tokens_per_s(x) for x in xs]) for xs in (old, new))
    return bool(after < before * (1 - THROUGHPUT))


class Outputs:
    """The outputs of a recording's ops, which stay in memory."""

    def __init__(self, fixture):
        self.blobs = blobs_of(fixture)
        self.out = {o["op"]: o["out"] for o in records(fixture, "ops.jsonl.zst")}

    def of(self, op):
        return as_array(self.out[op], self.blobs[self.out[op]["blob"]])


def blobs_of(fixture):
    with open(f"{fixture}/blobs.pack", "rb") as f:
        return {b[0]: b[2] for b in read_fixture.blobs(f.read())}


def as_array(out, raw):
    return numpy.frombuffer(raw, numpy.float16 if out["dtype"] == "F16" else numpy.float32)


def torch_close(recorded, replay):
    """An output that is not in the replay is equal bit for bit."""
    new, off = blobs_of(replay), 0
    for o in records(replay, "ops.jsonl.zst"):
        if o["out"]["blob"] not in new or not o["out"]["stored"]:
            continue
        rtol, atol = TORCH[o["out"]["dtype"]]
        a, b = as_array(o["out"], new[o["out"]["blob"]]), recorded.of(o["origin"]["op"])
        a, b = a.astype(numpy.float64), b.astype(numpy.float64)
        off += not (numpy.abs(a - b) <= atol + rtol * numpy.abs(b)).all()
    return off > 0


def ops_differ(replay):
    """Exact match on ops: an output that is not the recorded one, bit for bit."""
    return any(o["judge"].get("equal") != o["judge"].get("total") for o in records(replay, "ops.jsonl.zst"))
