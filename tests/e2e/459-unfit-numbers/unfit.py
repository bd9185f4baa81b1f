"""unfit.py WHAT BASE REPLAY - put numbers that nobody can have written into a replay, one member after the
other, and count how differ ends.
SPDX-License-Identifier: Apache-2.0

WHAT: judgements, exchanges, manifest; lies: judgements that lack something or contradict themselves; or one: a single change, which stays as the folder `changed`.
"""
import copy
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.environ["ROOT"] + "/tests")
from edit_fixture import records

BIN, HELPERS = os.environ["BIN"], os.environ["O"] + "/tests/helpers"
HUGE = "number 1e400"                   # which json cannot write
VALUES = [HUGE, 1 << 64, -(1 << 63), -1, "NaN"]
MAY_BE_NEGATIVE = {"usage.prompt_tokens", "usage.completion_tokens", "logprobs.#", "top.#.#", "scores.#", "scores_top.#.#",
                   "t_sent_ns", "t_first_byte_ns", "t_end_ns"}
MAY_BE_NAN = {"logprobs.#", "scores.#", "top.#.#", "scores_top.#.#"}
NEW = "changed"


def text(v):
    return json.dumps(v).replace(json.dumps(HUGE), "1e400")


def numbers(v, at=()):
    """The paths of all numbers below v; of a list those of its first and last member."""
    if isinstance(v, dict):
        for k, x in v.items():
            yield from numbers(x, at + (k,))
    elif isinstance(v, list):
        for k in sorted({0, len(v) - 1}) if v else ():
            yield from numbers(v[k], at + (k,))
    elif isinstance(v, (int, float)) and not isinstance(v, bool):
        yield at


def put(v, at, value):
    for k in at[:-1]:
        v = v[k]
    v[at[-1]] = value


def by_name(lines):
    """{name: [(line, path)]}: the same member of all lines, and of all places in a list, is one name."""
    out = {}
    for i, line in enumerate(lines):
        for at in numbers(line):
            out.setdefault(".".join("#" if isinstance(k, int) else k for k in at), []).append((i, at))
    return out


def write_stream(base, stream, lines):
    shutil.rmtree(NEW, ignore_errors=True)
    shutil.copytree(base, NEW)
    name = stream + ".jsonl.zst"
    data = "".join(text(x) + "\n" for x in lines).encode()
    subprocess.run([HELPERS + "/write_stream", NEW, name], input=data, check=True)
    with open(base + "/manifest.json") as f:
        m = json.load(f)
    m["files"].pop(name)                # a file that is not listed is not checked
    with open(NEW + "/manifest.json", "w") as f:
        json.dump(m, f)


def write_manifest(base, lines):
    shutil.rmtree(NEW, ignore_errors=True)
    shutil.copytree(base, NEW)
    with open(NEW + "/manifest.json", "w") as f:
        f.write(text(lines[0]))


def differ(base):
    return subprocess.run([BIN + "/differ", base, NEW], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode


def with_more(op):
    """The judgement with all that it can hold: a baseline build, timings, a GPU, what is over."""
    j = op["judge"]
    reading = {"sm_mhz": [1000, 1500, 2000], "samples": 5, "throttled": 1}
    lines = {"bad": 2, "all": 9, "first": 1, "last": 5, "period": 4, "from": 1, "to": 1}
    j["baseline"] = dict(j["candidate"])
    j["over"] = {"limit": 4, "of": "rms", "rows": dict(lines), "cols": dict(lines)}
    j["speed"] = {"hot": [[100, 100]] * 8, "cold": [[100, 100]] * 8, "starts": 8, "runs_hot": 1, "runs_cold": 1,
                  "device": {side: {"before": dict(reading), "after": dict(reading)} for side in ("baseline", "candidate")}}
    j.update(departs=0, baseline_equal=0, baseline_departs=0, unstable=0)
    return op


def is_looked_at(what, name):
    if what == "judgements":
        return name.startswith("judge.") or name in ("attrs.m", "attrs.n", "attrs.k", "attrs.bits", "attrs.group_size")
    if what == "manifest":
        return name.split(".")[0] in ("ledger", "files", "plan", "seen") or name == "replay.requests"
    return name.split(".")[0] not in ("request", "group", "stream", "scored_from", "extra")


def cases(what, lines):
    for name, places in by_name(lines).items():
        for value in VALUES if is_looked_at(what, name) else ():
            if value in (-1, -(1 << 63)) and name in MAY_BE_NEGATIVE or value == "NaN" and name in MAY_BE_NAN:
                continue
            if value == "NaN" and name == "judge.baseline_departs":
                continue
            new = copy.deepcopy(lines)
            for i, at in places:
                put(new[i], at, value)
            yield name, value, new


def lies(base, replay, lines):
    """Each of these stands in one line of the replay."""
    def judge(change):
        def made(op):
            change(op["judge"])
            return [op]
        return made

    def pop(*names):
        return judge(lambda j: [j["candidate"].pop(n) for n in names])
    made = {
        "no judgement": lambda op: [{k: v for k, v in op.items() if k != "judge"}],
        "a judgement of null": lambda op: [{**op, "judge": None}],
        "a judgement in words": lambda op: [{**op, "judge": "ok"}],
        "a judgement in a list": lambda op: [{**op, "judge": [op["judge"]]}],
        "without a reference": judge(lambda j: j.update(reference=False)),
        "without a reference or an error": judge(lambda j: j.update(reference=False, candidate=None)),
        "no worst column": pop("worst_col"),
        "no worst row, column, tile": pop("worst_row", "worst_col", "worst_tile"),
        "no score": pop("score"),
        "over a limit that it is under": judge(lambda j: j.update(over={"limit": 4, "of": "element"})),
        "no recorded error": judge(lambda j: j.update(recorded=None)),
        "more NaN than the reference has": judge(lambda j: j["candidate"].update(nan=7)),
        "unstable without odd runs": judge(lambda j: j["candidate"].update(unstable=7)),
        "the worst column above the worst element": judge(lambda j: j["candidate"].update(worst_col=[0, 9])),
        "there twice": lambda op: [op, op]}
    for name, change in made.items():
        write_stream(replay, "ops", change(copy.deepcopy(lines[0])) + lines[1:])
        print(f"{name}: {differ(base)}")


def main():
    what, base, replay = sys.argv[1:]
    stream = {"judgements": "ops", "one": "ops", "lies": "ops", "exchanges": "exchanges"}.get(what)
    if what == "manifest":
        with open(replay + "/manifest.json") as f:
            lines = [json.load(f)]
    else:
        lines = records(replay, stream)
    if what == "lies":
        lies(base, replay, lines)
        return
    if stream == "ops":
        lines = [with_more(x) for x in lines]
    if what == "one":
        lines[0]["judge"]["candidate"]["unstable"] = 1 << 64
        write_stream(replay, stream, lines)
        return
    write = (lambda x: write_manifest(replay, x)) if what == "manifest" else (lambda x: write_stream(replay, stream, x))
    write(lines)
    unchanged, codes, n = differ(base), {}, 0
    if unchanged not in (0, 3) or what != "judgements" and unchanged:
        print(f"{what}: {unchanged} without a change")
    for name, value, new in cases(what, lines):
        write(new)
        code, n = differ(base), n + 1
        codes[code] = codes.get(code, 0) + 1
        if code not in ((3, 4) if what == "exchanges" else (4,)):
            print(f"{what}: {name} = {text(value)} ends with {code}")
    print(f"{what}: all of {'more than 100' if n > 100 else n} changes are found" if set(codes) <= {3, 4} else f"{what}: NOT all")


main()
