"""other_rules.py - what other rules would have said of the same runs (power.py; the builds of tests/live).

  other_rules.py FIXTURE REPLAY      "exact N/M torch N/M": how many of the ops that were replayed the two rules for ops fail

SPDX-License-Identifier: Apache-2.0
Each takes what two fixtures hold and returns True where that rule would fail the new build.

exact_match          every answer has the tokens of the recording's first answer to that prompt
check_logprobs_close vLLM, tests/models/utils.py: where two answers part, each one's token is among the likeliest of the
                     other, at that place; what comes behind is not looked at
torch_close          torch.testing.assert_close on each op's output, with its default tolerances
mean_throughput      the mean of tokens a second falls by more than 5 %
"""
import mmap
import os
import sys

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests"))
import read_fixture  # noqa: E402

THROUGHPUT = 0.05
TORCH = {"F16": (1e-3, 1e-5), "BF16": (1.6e-2, 1e-5), "F32": (1.3e-6, 1e-5)}  # rtol, atol: torch.testing's table of defaults
RAN = ("ok", "failed", "crashed", "hung")


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

    def __init__(self, fixture, ops=None):
        self.out = {o["op"]: o["out"] for o in records(fixture, "ops.jsonl.zst") if ops is None or o["op"] in ops}
        self.blobs = blobs_of(fixture, {o["blob"] for o in self.out.values()})

    def of(self, op):
        return as_array(self.out[op], self.blobs[self.out[op]["blob"]])


def blobs_of(fixture, wanted=None):
    path = f"{fixture}/blobs.pack"
    if not os.path.getsize(path):
        return {}
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as pack:
        return {b[0]: b[2] for b in read_fixture.blobs(pack, wanted)}


def as_array(out, raw):
    if out["dtype"] == "BF16":
        return (numpy.frombuffer(raw, numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
    return numpy.frombuffer(raw, numpy.float16 if out["dtype"] == "F16" else numpy.float32)


def is_close(a, b, dtype):
    rtol, atol = TORCH[dtype]
    a, b = a.astype(numpy.float64), b.astype(numpy.float64)
    with numpy.errstate(invalid="ignore"):
        return bool(((a == b) | (numpy.abs(a - b) <= atol + rtol * numpy.abs(b))).all())


def torch_fails(recorded, replay):
    """The replayed ops, each with whether assert_close fails. An output that is not in the replay is equal bit for bit; an op
    without an output fails."""
    new = blobs_of(replay)
    for o in records(replay, "ops.jsonl.zst"):
        if o["judge"]["status"] not in RAN:
            continue
        stored = o["out"]["stored"] and o["out"]["blob"] in new
        yield o, o["judge"]["status"] != "ok" or (
            stored and not is_close(as_array(o["out"], new[o["out"]["blob"]]), recorded.of(o["origin"]["op"]), o["out"]["dtype"]))


def torch_close(recorded, replay):
    return any(fails for _, fails in torch_fails(recorded, replay))


def op_differs(o):
    return o["judge"]["status"] != "ok" or o["judge"].get("equal") != o["judge"].get("total")


def ops_differ(replay):
    """Exact match on ops: an output that is not the recorded one, bit for bit."""
    return any(map(op_differs, records(replay, "ops.jsonl.zst")))


def count_ops(fixture, replay):
    """How many ops were run, how many of them are not the recorded ones, how many not close."""
    some = {o["origin"]["op"] for o in records(replay, "ops.jsonl.zst")}
    said = [(op_differs(o), fails) for o, fails in torch_fails(Outputs(fixture, some), replay)]
    return len(said), sum(s[0] for s in said), sum(s[1] for s in said)


if __name__ == "__main__":
    n, exact, torch = count_ops(*sys.argv[1:3])
    print(f"exact {exact}/{n} torch {torch}/{n}")
