#!/usr/bin/env python3
"""run.py - whole transfers from the scripted server of this folder, through the real programs.

  run.py SHARE...     quick, long, slow, drip, big, bytes-N (each N-th byte of an answer), all

Each row of modes.py is one prompt. `record` records all of them in one go, a sound prompt beside each
ten, and the exchanges must be what the table says; all sound ones must be whole. Then `replay` sends
the recording of a sound server to the hostile one: the same must come of it. Both fixtures must
verify. Nothing may arrive where redirects point. Failures are printed, then the count of cases.
BIN names the folder of the programs; SAN: sanitizers of the build, "" for none (then the memory of the
programs is looked at, too). PROGRAMS: record and replay, or one of them. MODES: only rows whose name
matches. SHOW=1 prints every outcome. MEMORY_MIB: what a program may take.
SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import modes

BIN, SAN = os.environ["BIN"], os.environ.get("SAN", "")
PROGRAMS = os.environ.get("PROGRAMS", "record replay").split()
TIMEOUT = {"quick": 20, "slow": 2, "drip": 1, "big": 60, "long": 60, "bytes": 20}
WIDTH = {"quick": 8, "slow": 16, "drip": 32, "big": 1, "long": 1, "bytes": 64}
SECONDS = "1800" if SAN else "300"  # a server ends by itself after that
MEMORY_MIB = int(os.environ.get("MEMORY_MIB", "1000"))  # of one program, whatever a server sends
failures, cases, memory_mib = [], 0, 0


def fail(what, *words):
    failures.append(what)
    print("FAIL", what + ":", *words, flush=True)


class Server:
    def __init__(self, *options):
        self.proc = subprocess.Popen([sys.executable, HERE + "/server.py", "--seconds", SECONDS, *options], stdout=subprocess.PIPE, text=True)
        self.elsewhere = self.proc.stdout.readline().split()[1]
        self.url = self.proc.stdout.readline().split("//")[1].strip()

    def end(self):
        self.proc.send_signal(signal.SIGTERM)
        words = self.proc.stdout.read().split()
        self.proc.wait()
        return int(words[-1])


def run(program, *options):
    """Run a program. Returns its exit code and what it printed. A sanitizer's report is a failure."""
    global memory_mib
    with tempfile.TemporaryFile() as out:
        p = subprocess.Popen([f"{BIN}/{program}", *options], stdout=out, stderr=out)
        _, status, used = os.wait4(p.pid, 0)
        out.seek(0)
        text = out.read().decode("utf-8", "replace")
    rc = p.returncode = os.waitstatus_to_exitcode(status)
    memory_mib = max(memory_mib, used.ru_maxrss >> 10)
    if rc < 0 or "Sanitizer" in text or "runtime error" in text:
        fail(" ".join([program, *options]), "ended by", rc, text[-3000:])
    return rc, text


def exchanges(fixture):
    raw = subprocess.run(["zstd", "-dcq", fixture + "/exchanges.jsonl.zst"], capture_output=True).stdout
    return [json.loads(line) for line in raw.decode("utf-8", "replace").split("\n") if line]


def matches(x, want):
    for one in want.split("|"):
        kind, _, words = one.strip().partition(":")
        name, _, tokens = kind.partition(" ")
        if name == "kept" and not x.get("error_kind") and tokens in ("", str(x["n_tokens"])):
            return True
        if name == x.get("error_kind") and words.strip() in x["error"]:
            return True
    return False


def outcome(x):
    return "%s %d tokens%s" % (x.get("error_kind") or "kept", x["n_tokens"], ": " + x["error"][:200] if x.get("error") else "")


def check(program, fixture, rows):
    global cases
    got = {x["prompt_id"]: x for x in exchanges(fixture) if x["phase"] == "timed"}
    whole, late = "".join(modes.WORDS), "".join([modes.LATE] + modes.WORDS[1:])
    late_left = sum(name == "answer-twice-later" for name, _ in rows)
    for name, want in rows:
        cases += 1
        if late_left and name in got and got[name]["text"] == late:
            late_left -= 1
            continue
        if name not in got:
            fail(f"{program} {name}", "no exchange was kept")
        elif not matches(got[name], want):
            fail(f"{program} {name}", "wanted", want, "- got", outcome(got[name]))
        elif os.environ.get("SHOW"):
            print("  %-8s %-36s %s" % (program, name, outcome(got[name])))
        if name in got and name.startswith("sound-") and got[name]["text"] != whole:
            fail(f"{program} {name}", "another text:", got[name]["text"][:100])
    rc, text = run("fixture", "verify", fixture)
    if rc:
        fail(f"{program}: fixture verify", rc, text[-300:])
    manifest = json.load(open(fixture + "/manifest.json"))
    sums = manifest["ledger"]
    n = lambda key: sums.get(key, {"n": 0})["n"]
    if n("exchanges.planned") != n("exchanges.sent") + n("exchanges.dropped.server_gone"):
        fail(f"{program}: ledger", sums)
    warmups = sum(x["phase"] == "warmup" for x in exchanges(fixture)) if program == "replay" else 0  # there they are not planned
    if manifest["files"]["exchanges.jsonl.zst"]["records"] != n("exchanges.planned") + warmups:
        fail(f"{program}: ledger", manifest["files"]["exchanges.jsonl.zst"], sums)


def run_share(share, folder):
    step = int(share.partition("-")[2] or 0)
    kind = share.partition("-")[0]
    if kind == "bytes":
        rows = [(f"{how}-at-{i}", "cut:" if i < len(modes.BYTES) else "kept 3 | cut:")
                for i in range(0, len(modes.BYTES) + 1, step) for how in ("cut", "reset")]
    else:
        rows = [(m.name, m.want) for m in modes.MODES if m.share == kind and re.search(os.environ.get("MODES", ""), m.name)]
    if not rows:
        return
    early = {m.name for m in modes.MODES if "early" in m.script}
    prompts, all_rows = [("sound-0", "kept 3")], [("sound-0", "kept 3")]
    for i, one in enumerate(rows):
        all_rows.append(one)
        if i % 10 == 9 or i + 1 == len(rows):
            all_rows.append((f"sound-{i + 1}", "kept 3"))
    os.makedirs(f"{folder}/{share}")
    suite = f"{folder}/{share}/suite.jsonl"
    with open(suite, "w") as f:
        for name, _ in all_rows:
            prompt = f"mode:{name};" if not name.startswith("sound-") else name
            f.write(json.dumps({"id": name, "prompt": prompt + "x" * ((3 << 20) if name in early else 0), "concurrency": WIDTH[kind]}) + "\n")
    timeout = str(TIMEOUT[kind])
    options = ["--suite", suite, "--repeat", "1", "--gemms", "off", "--scores", "off", "--allow-failures", "--timeout", timeout]
    hostile = Server()
    if "record" in PROGRAMS:
        rc, text = run("record", "--server", hostile.url, "-o", f"{folder}/{share}/hostile", *options)
        if rc:
            fail("record", "exit", rc, text[-300:])
        check("record", f"{folder}/{share}/hostile", all_rows)
    if "replay" in PROGRAMS:
        sound = Server("--good")
        run("record", "--server", sound.url, "-o", f"{folder}/{share}/sound", *options)
        sound.end()
        run("replay", f"{folder}/{share}/sound", "--server", hostile.url, "-o", f"{folder}/{share}/replay", "--timeout", timeout)
        check("replay", f"{folder}/{share}/replay", all_rows)
    elsewhere = hostile.end()
    if elsewhere:
        fail(share, elsewhere, "connections came to where a redirect pointed")
    if not SAN and memory_mib > MEMORY_MIB:
        fail(share, "a program took", memory_mib, "MiB, more than", MEMORY_MIB)


shares = sys.argv[1:] or ["quick"]
if shares == ["all"]:
    shares = ["quick", "slow", "drip", "long", "big", "bytes-1"]
with tempfile.TemporaryDirectory() as folder:
    for s in shares:
        run_share(s, folder)
if os.environ.get("SHOW"):
    print(f"most memory of one program: {memory_mib} MiB")
print(f"{len(failures)} of {cases} cases failed" if failures else f"{cases} cases as they should be")
sys.exit(bool(failures) or not cases)
