#!/usr/bin/env python3
"""power.py - how small a fault is found: planted bugs of growing size through the gate, again and again.

SPDX-License-Identifier: Apache-2.0
  power.py run [--time 2h] [--state DIR] [--only WORD ...] [--rounds N] [--unchanged N] [--tokens N] [--jobs N] [--policy FILE]
  power.py plan [the same]      how many runs there are, and how long they take
  power.py report [--out FILE]  tables of what is known by now

24 bugs (12 places, each as a scale and as a bias) in four sizes, in units of the output format's roundoff; slow-downs; honest
builds; the unchanged build. Recordings at concurrency 1 and 6. Ops are deterministic: one run a size. Speed and answers are
ROUNDS runs each, a new server each time. They go in this order, so that a part of all runs gives whole tables. Runs that time
nothing go JOBS at once, those of speed one at a time, with a note of what else the machine did. What was found is a line of
DIR/results.jsonl; a run that was stopped, by --time, by SIGINT or SIGTERM, goes on where it stopped. Beside each verdict stands
what other rules would have said (other_rules.py).
Needs numpy and zstandard for Python (make deps).
"""
import argparse
import hashlib
import itertools
import json
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import other_rules
import power_report

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
BIN, LIB = os.environ.get("BIN", f"{ROOT}/bin"), os.environ.get("LIB", f"{ROOT}/lib")
MODEL = f"{ROOT}/demo/checkpoints/gptq4"
UNIT = 2.0 ** -11                       # unit roundoff of float16
STRENGTHS = [0.5, 1, 4, 20]             # units
SLOW = [0.01, 0.02, 0.05, 0.10]
CONCURRENCY = [1, 6]
HONEST = ["honest_nofma", "honest_sumorder", "unordered", "honest_halves", "graded"]
MARK = b"td-graded-fault\0"
TIMED_TOKENS = 24                       # of an answer whose time is judged: with fewer, reading prompts is all that takes time
TIMED_OPS = 200                         # replayed in a run of speed; two of each kernel, shape and class of M are timed
RUN_S = 600                             # the longest that one program may take
stopped = []


def layer_words(layer):
    """The first word of each weight of a layer: by these the kernel knows it."""
    with open(f"{MODEL}/model.safetensors", "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        head = json.loads(f.read(n))
        words = []
        for name, t in head.items():
            if name.startswith(f"model.layers.{layer}.") and name.endswith(".qweight"):
                f.seek(8 + n + t["data_offsets"][0])
                words.append(struct.unpack("<I", f.read(4))[0])
    return words


def places():
    last = max(int(m) for m in re.findall(r"model\.layers\.(\d+)\.", open(f"{MODEL}/model.safetensors", "rb").read(1 << 16).decode("latin1")))
    return {"all": {}, "column_2nd": {"every": 2}, "column_4th": {"every": 4}, "column_16th": {"every": 16}, "column_64th": {"every": 64},
            "first_layer": {"word": layer_words(0)}, "middle_layer": {"word": layer_words((last + 1) // 2)}, "last_layer": {"word": layer_words(last)},
            "shape_k640": {"k": 640}, "shape_n96": {"n": 96}, "shape_n640": {"n": 640}, "one_row": {"m": 1}}


def graded(path, **fault):
    """Copy the graded build into a folder, with a fault (demo/bugs/graded.h)."""
    words = fault.get("word", [])
    body = struct.pack("<16s3d6i16I", MARK, fault.get("scale", 0), fault.get("bias", 0), fault.get("slow", 0), fault.get("every", 1),
                       fault.get("k", 0), fault.get("n", 0), fault.get("m", 0), len(words), 0, *words, *[0] * (16 - len(words)))
    with open(f"{LIB}/bugs/graded/libtdkernels.so", "rb") as f:
        data = bytearray(f.read())
    at = [m.start() for m in re.finditer(re.escape(MARK), data)]
    if not at:
        sys.exit("power: lib/bugs/graded has no place for a fault; make bugs")
    for i in at:
        data[i:i + len(body)] = body
    os.makedirs(path, exist_ok=True)
    with open(f"{path}/libtdkernels.so", "wb") as f:
        f.write(data)
    return path


def cells(a):
    """All runs: (kind, bug, strength, concurrency, round). Rounds are outermost, and each has its share of unchanged runs."""
    faults = [(f"{how}_{place}", s) for place in places() for how in ("scale", "bias") for s in STRENGTHS]
    honest = [(name, 0) for name in HONEST]
    all_cells = [("ops", bug, s, c, 0) for c in CONCURRENCY for bug, s in honest + faults]
    rounds, each = max(a.rounds, 1), -(-a.unchanged // len(CONCURRENCY))
    for kind, some in (("speed", [("slow", s) for s in SLOW]), ("live", honest[:-1] + faults)):
        for i in range(rounds):
            for c in CONCURRENCY:
                all_cells += [(kind, bug, s, c, i) for bug, s in some if i < a.rounds]
                all_cells += [(kind, "graded", 0, c, j) for j in range(each * i // rounds, each * (i + 1) // rounds)]
    return [c for c in all_cells if not a.only or any(w in key(c) for w in a.only)]


def key(cell):
    return "/".join(str(x) for x in cell)


def build(state, bug, strength):
    if bug in HONEST and bug != "graded":
        return f"{LIB}/bugs/{bug}"
    path = f"{state}/builds/{bug}-{strength}"
    if os.path.exists(f"{path}/libtdkernels.so"):
        return path
    how, _, place = bug.partition("_")
    fault = {"slow": strength} if how == "slow" else {} if bug == "graded" else {how: strength * UNIT, **places()[place]}
    return graded(path, **fault)


def run(command, **more):
    p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, **more)
    try:
        out, err = p.communicate(timeout=RUN_S)
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        p.communicate()
        return -1, "", f"{command[0]}: no end after {RUN_S} s"
    return p.returncode, out, err


class Server:
    def __init__(self, folder):
        self.p = subprocess.Popen([f"{BIN}/demo-server", "--model", MODEL, "--served-model-name", "demo", "--port", "0"], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "LD_LIBRARY_PATH": folder}, start_new_session=True)
        self.at = self.p.stdout.readline().strip().removeprefix("listening on http://")
        if not self.at:
            self.end()
            sys.exit("power: the demo server did not start")

    def end(self):
        self.p.terminate()
        self.p.wait()
        self.p.stdout.close()

    def __enter__(self):
        return self.at

    def __exit__(self, *_):
        self.end()


def record(a, kind, c):
    """The recording of a kind of runs. The one for speed has no scores: a replay would repeat them, four times a run."""
    to = f"{a.state}/recorded-{'speed-' if kind == 'speed' else ''}c{c}"
    if os.path.exists(f"{to}/done"):
        return to
    shutil.rmtree(to, ignore_errors=True)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        at = f"127.0.0.1:{s.getsockname()[1]}"
    rc, _, err = run([f"{BIN}/record", "-s", at, "-o", to, "--suite", "quick", "-c", str(c), "--repeat", "3", "-n", str(TIMED_TOKENS if kind == "speed" else a.tokens), "--gemms", "all", "--ring-mib", "1024",
                      "--scores", "off" if kind == "speed" else "on", "--run",
                      "--", f"{BIN}/demo-server", "--model", MODEL, "--served-model-name", "demo", "--port", at.split(":")[1]],
                     env={**os.environ, "LD_LIBRARY_PATH": build(a.state, "graded", 0)})
    if rc:
        sys.exit(f"power: record: {err}")
    open(f"{to}/done", "w").close()
    return to


def judge(a, cell, kept):
    """One run of the gate. Returns its exit code, text and error."""
    kind, bug, strength, c, _ = cell
    lib, good = build(a.state, bug, strength), build(a.state, "graded", 0)
    base = [f"{BIN}/gate", record(a, kind, c), "--json", f"{kept}.json", "--keep", kept, "--cache", f"{a.state}/references",
            *(["--policy", a.policy] if a.policy else [])]
    if kind == "ops":
        return run([*base, "--build", f"{lib}/libtdkernels.so", "--lanes", "ops", "--time", "all"])
    with Server(lib) as new:
        if kind == "live":                  # each round is a new server, so it need not repeat what it answers
            return run([*base, "--server", new, "--repeat", "1", "--lanes", "tokens,collapse,scores"])
        with Server(good) as old:
            return run([*base, "--server", new, "--baseline-server", old, "--max-ops", str(TIMED_OPS),
                        "--build", f"{lib}/libtdkernels.so", "--baseline-build", f"{good}/libtdkernels.so", "--lanes", "speed"])


def where(report):
    """What the report says of the place: the rule over ops, and the clearest bias or the part of the matrix."""
    blame, found = report.get("blame") or {}, ((report.get("ops") or {}).get("bias") or {}).get("found") or []
    rule = blame.get("pattern") if blame.get("good") else None
    part = min(found, key=lambda f: f["p"])["text"] if found else blame.get("matrix")
    return [w for w in (rule, part) if w and w != "every op"]


def timings(report):
    """Did a row that times ops regress, and one that times servers? Of these, where other programs disturbed the rounds, "disturbed"."""
    speed = report.get("speed") or {}
    said = {what: "regressed" if any(r["verdict"] == "regressed" and r["metric"].startswith("op,") == ops for r in speed.get("rows") or []) else "pass"
            for what, ops in (("ops", True), ("servers", False))}
    if not speed.get("server_judged", True):
        said["servers"] = "disturbed"
    return said


def others(a, cell, kept, recorded):
    """What the other rules say: {rule: failed}."""
    kind, c = cell[0], cell[3]
    if kind == "ops":
        new = f"{kept}/candidate-0"
        return {"exact": other_rules.ops_differ(new), "torch": other_rules.torch_close(recorded[c], new)}
    old = f"{kept}/baseline-0" if kind == "speed" else record(a, kind, c)
    x, y = other_rules.answers(old), other_rules.answers(f"{kept}/candidate-0")
    said = {"throughput": other_rules.mean_throughput(x, y)}
    if kind == "speed":
        said["any"] = servers_beside_anything(a, kept, recorded_at=record(a, kind, c))
    if kind == "live":
        said.update(exact=other_rules.exact_match(x, y), logprobs=other_rules.check_logprobs_close(x, y))
    return said


def servers_beside_anything(a, kept, recorded_at):
    """Would the servers have been called slower if nobody had looked what other programs did? By the same replays."""
    policy, to = f"{a.state}/any.json", f"{kept}/any-report.json"
    with open(policy, "w") as f:
        json.dump({"name": "whatever else runs", "speed": {"others": 1}}, f)
    rounds = range(sum(name.startswith("candidate-") for name in os.listdir(kept)))
    new, old = [f"{kept}/candidate-{i}" for i in rounds], [x for i in rounds for x in ("--baseline-live", f"{kept}/baseline-{i}")]
    run([f"{BIN}/differ", recorded_at, new[0], *[x for n in new[1:] for x in ("--new", n)], *old, "--lanes", "speed", "--policy", policy, "--json", to])
    return timings(json.load(open(to)))["servers"] == "regressed"


def cpu_times():
    """Seconds of CPU time since the start: of the whole machine, and of our programs that came to their end."""
    with open("/proc/stat") as f:
        user, nice, system, _, _, irq, softirq, steal = map(int, f.readline().split()[1:9])
    ours = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK"), ours.ru_utime + ours.ru_stime


def one(a, cell, recorded, worker=0):
    kept, began = f"{a.state}/kept-{worker}", time.monotonic()
    shutil.rmtree(kept, ignore_errors=True)
    load, (all_before, ours_before) = os.getloadavg()[0], cpu_times()
    rc, out, err = judge(a, cell, kept)
    all_after, ours_after = cpu_times()
    row = {"key": key(cell), "kind": cell[0], "bug": cell[1], "strength": cell[2], "concurrency": cell[3], "round": cell[4], "exit": rc,
           "line": out.strip().splitlines()[-1] if out.strip() else err.strip()[-300:]}
    if cell[0] == "speed":                   # alone, so that what is not ours is another program's
        row["load"] = round(load, 2)
        row["rounds"] = sum(name.startswith("candidate-") for name in os.listdir(kept)) if os.path.isdir(kept) else 0
        row["others_cores"] = round(max(0, all_after - all_before - (ours_after - ours_before)) / (time.monotonic() - began), 2)
    if rc in (0, 1, 3):
        report = json.load(open(f"{kept}.json"))
        row["lanes"] = {k: v["verdict"] for k, v in report["lanes"].items() if v["asked"]}
        row["where"] = where(report)
        if cell[0] == "speed":
            row["timings"] = timings(report)
        row["others"] = others(a, cell, kept, recorded)
    shutil.rmtree(kept, ignore_errors=True)
    row["seconds"] = round(time.monotonic() - began, 2)
    return row


def program_hash():
    h = hashlib.sha256()
    for path in [f"{BIN}/{p}" for p in ("record", "gate", "replay", "replay-child", "differ", "demo-server")] + [f"{LIB}/bugs/{b}/libtdkernels.so" for b in HONEST]:
        with open(path, "rb") as f:
            h.update(f.read())
    return h.hexdigest()[:16]


def read_results(state):
    if not os.path.exists(f"{state}/results.jsonl"):
        return []
    rows = []
    with open(f"{state}/results.jsonl") as f:
        for line in f:
            try:
                rows.append(json.loads(line))
            except ValueError:
                pass                        # the last line, of a run that was killed
    return rows


def add_result(state, row):
    with open(f"{state}/results.jsonl", "ab+") as f:
        if f.tell() and (f.seek(-1, os.SEEK_END), f.read(1))[1] != b"\n":
            f.write(b"\n")                  # behind a line that was cut off
        f.write(json.dumps(row).encode() + b"\n")
        f.flush()
        os.fsync(f.fileno())


def open_state(a):
    meta = {"programs": program_hash(), "tokens": a.tokens, "policy": json.load(open(a.policy)) if a.policy else None}
    path = f"{a.state}/meta.json"
    os.makedirs(a.state, exist_ok=True)
    if not os.path.exists(path):
        json.dump(meta, open(path, "w"))
    elif json.load(open(path)) != meta:
        sys.exit(f"power: {a.state} is of other programs, or of another --tokens or --policy: give another --state, or remove it")


def words(seconds):
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"


def means(rows):
    took = {}
    for r in rows:
        took.setdefault(r["kind"], []).append(r["seconds"])
    return {kind: sum(t) / len(t) for kind, t in took.items()}


def jobs_of(a, kind):
    return 1 if kind == "speed" else a.jobs


def left_words(a, todo, rows):
    mean = means(rows)
    unknown = {c[0] for c in todo} - mean.keys()
    total = sum(mean.get(c[0], 0) / jobs_of(a, c[0]) for c in todo)
    took = [words(total)] * (total > 0) + [f"those of {', '.join(sorted(unknown))} are not timed yet"] * bool(unknown)
    return ", ".join([f"{len(todo)} runs left", *took])


def to_do(a, rows):
    done = {r["key"] for r in rows}
    return [c for c in cells(a) if key(c) not in done]


class Work:
    """Runs that are done by several threads: each takes the next one, until none is left or the time is over."""

    def __init__(self, a, rows, todo):
        self.a, self.rows, self.todo, self.lock, self.recorded = a, rows, todo, threading.Lock(), {}
        self.until = time.monotonic() + a.time if a.time is not None else None
        self.failed = []

    def is_over(self, kind):
        return bool(stopped or self.failed or (self.until and time.monotonic() + means(self.rows).get(kind, 0) > self.until))

    def prepare(self, some):
        """What several runs share is made before they begin."""
        kind = some[0][0]
        for c in sorted({cell[3] for cell in some}):
            fixture = record(self.a, kind, c)
            if kind == "ops" and c not in self.recorded:
                self.recorded[c] = other_rules.Outputs(fixture)
        for bug, strength in {cell[1:3] for cell in some} | {("graded", 0)}:
            build(self.a.state, bug, strength)

    def work(self, some, worker):
        try:
            while True:
                with self.lock:
                    if not some or self.is_over(some[0][0]):
                        return
                    cell = some.pop(0)
                row = one(self.a, cell, self.recorded, worker)
                with self.lock:
                    self.rows.append(row)
                    self.todo.remove(cell)
                    add_result(self.a.state, row)
                    print(f"{row['key']}: exit {row['exit']}, {row['seconds']:.1f} s; {left_words(self.a, self.todo, self.rows)}", flush=True)
        except BaseException as e:
            self.failed.append(e)

    def run(self):
        for kind, some in itertools.groupby(list(self.todo), lambda cell: cell[0]):
            if self.is_over(kind):
                return
            some = list(some)
            self.prepare(some)
            threads = [threading.Thread(target=self.work, args=(some, i)) for i in range(jobs_of(self.a, kind))]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            if self.failed:
                raise self.failed[0]


def do_run(a):
    open_state(a)
    rows = read_results(a.state)
    work = Work(a, rows, to_do(a, rows))
    print(left_words(a, work.todo, rows), flush=True)
    work.run()
    if work.todo:
        print(f"stopped; {left_words(a, work.todo, rows)}; the same command goes on", flush=True)
        return 3
    print("all runs are done", flush=True)
    return 0


def seconds(text):
    m = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text)
    if not m:
        raise argparse.ArgumentTypeError("give 90s, 30m or 2h")
    return float(m[1]) * {"s": 1, "m": 60, "h": 3600}[m[2]]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["run", "plan", "report"])
    p.add_argument("--state", default=f"{ROOT}/build/detect-power")
    p.add_argument("--time", type=seconds, help="begin no run that would end later: 90s, 30m, 2h")
    p.add_argument("--only", nargs="*", default=[], help="runs whose name holds one of these words: ops/scale_all/, /c, slow")
    p.add_argument("--rounds", type=int, default=10, help="of answers and of speed")
    p.add_argument("--unchanged", type=int, default=200, help="runs of the unchanged build")
    p.add_argument("--tokens", type=int, default=8, help="of each answer that is compared")
    p.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="runs at once, but those of speed")
    p.add_argument("--policy", help="of the gate; the default: its own")
    p.add_argument("--out", default="-")
    a = p.parse_args()
    a.state = os.path.abspath(a.state)
    for s in (signal.SIGINT, signal.SIGTERM):
        signal.signal(s, lambda *_: stopped.append(1))
    rows = read_results(a.state)
    if a.what == "plan":
        print(left_words(a, to_do(a, rows), rows))
        return 0
    if a.what == "report":
        text = power_report.write(rows, [key(c) for c in cells(a)], CONCURRENCY, HONEST)
        sys.stdout.write(text) if a.out == "-" else open(a.out, "w").write(text)
        return 0
    return do_run(a)


if __name__ == "__main__":
    sys.exit(main())
