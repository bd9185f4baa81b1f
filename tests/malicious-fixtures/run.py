#!/usr/bin/env python3
"""run.py - give malicious fixtures to every program, with little memory.

SPDX-License-Identifier: Apache-2.0
usage: BIN=... [PROGRAMS="verify differ"] [QUIET=1] run.py FOLDER GOLDEN MAX_MEMORY_MIB [WORD]     (FOLDER: what make.py wrote)
A program must end by itself with one of its exit codes, must not take much more memory than
--max-memory says, must write nothing outside its folder, and must say what FOLDER/<name>.expect
tells. The time limit is a detector of hangs, nothing else. Prints a line for each fixture, and how
many runs there were. Exit 1: something did not hold.
"""
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

FOLDER, GOLDEN, MIB = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), int(sys.argv[3])
WORD = sys.argv[4] if len(sys.argv) > 4 else ""
BIN, SAN = os.environ["BIN"], os.environ.get("SAN", "")
CHOSEN = os.environ.get("PROGRAMS", "").split() # none: all
SLACK_MIB = 160 # the program itself, its libraries, and what several threads ask for at once
HANG_S = 300 if SAN else 120


def programs(fixture):
    """name -> command; `bad` is a copy that repair may change."""
    p = {"verify": ["fixture", "verify", fixture], "show": ["fixture", "show", fixture, "--all"], "ls": ["fixture", "ls", fixture],
         "pack": ["fixture", "pack", fixture, "-o", "x.tdz"], "unpack": ["fixture", "unpack", fixture, "-o", "unpacked"],
         "differ": ["differ", fixture, GOLDEN], "differ-new": ["differ", GOLDEN, fixture],
         "gate": ["gate", fixture, "--provider", "cpu", "--lanes", "ops"], "replay": ["replay", fixture, "-o", "replayed", "--provider", "cpu"],
         "exchange": ["fixture", "show", fixture, "exchange", "1"], "op": ["fixture", "show", fixture, "op", "0"], "step": ["fixture", "show", fixture, "step", "1"],
         "stats": ["fixture", "stats", fixture, "--metrics-as", "vllm", "--csv", "rows.csv", "--save-result", "result.json", "--save-detailed"],
         "ledger": ["fixture", "show", fixture, "ledger"], "ops": ["fixture", "ops", fixture], "steps": ["fixture", "steps", fixture],
         "code": ["fixture", "code", fixture, "-o", "code.bin"], "export": ["fixture", "export", fixture, "exported"],
         "extract": ["fixture", "extract", fixture, "-o", "cut", "--op", "0"], "merge": ["fixture", "merge", fixture, GOLDEN, "-o", "merged"],
         "repair": ["fixture", "repair", "bad"]}
    if fixture.endswith(".tdz"):
        return {k: p[k] for k in ("verify", "show", "unpack", "differ", "gate", "replay")}
    del p["unpack"]
    return {k: v for k, v in p.items() if k in CHOSEN} if CHOSEN else p


def limits():
    if not SAN: # a backstop: nothing should come near it
        resource.setrlimit(resource.RLIMIT_AS, ((MIB + 4096) << 20,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 30,) * 2)


def run(command, folder):
    """(exit code, or what happened; peak memory in MiB; output)"""
    with tempfile.TemporaryFile() as out:
        p = subprocess.Popen([f"{BIN}/{command[0]}", *command[1:], "--max-memory", f"{MIB}M"], stdin=subprocess.DEVNULL, stdout=out,
                             stderr=subprocess.STDOUT, cwd=folder, preexec_fn=limits, env={**os.environ, "TMPDIR": folder})
        end = time.monotonic() + HANG_S
        while True:
            pid, status, usage = os.wait4(p.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > end:
                p.kill()
                os.wait4(p.pid, 0)
                return "HANGS", 0, ""
            time.sleep(0.002)
        p.returncode = 0
        out.seek(0)
        said = out.read(4 << 20).decode(errors="replace")
        return os.waitstatus_to_exitcode(status), usage.ru_maxrss >> 10, said


def expected(name):
    path = f"{FOLDER}/{name}.expect"
    lines = open(path, encoding="utf-8").read().splitlines() if os.path.exists(path) else []
    return [line.split(": ", 1) for line in lines]


bad = runs = 0
quiet = os.environ.get("QUIET")


def complain(what):
    global bad
    bad += 1
    print("  " + what)


for entry in sorted(os.listdir(FOLDER)):
    name = entry[:-4] if entry.endswith(".tdz") else entry
    fixture = f"{FOLDER}/{entry}"
    if entry.endswith(".expect") or WORD not in entry:
        continue
    codes, want = [], expected(name)
    for program, command in programs(fixture).items():
        folder = tempfile.mkdtemp(prefix="td-malicious-")
        os.mkdir(f"{folder}/work")
        if program == "repair":
            shutil.copytree(fixture, f"{folder}/work/bad", symlinks=True)
        code, peak, said = run(command, f"{folder}/work")
        runs += 1
        codes.append(f"{program} {code}")
        if code not in (0, 1, 2, 3, 4):
            complain(f"{name}: {program} ends with {code}: {said[-300:]}")
        if "Sanitizer" in said or "runtime error" in said:
            complain(f"{name}: {program}: {said[:2000]}")
        if not SAN and peak > MIB + SLACK_MIB:
            complain(f"{name}: {program} takes {peak} MiB, it may take {MIB}")
        if os.listdir(folder) != ["work"]:
            complain(f"{name}: {program} wrote {os.listdir(folder)}")
        for who, words in want:
            if who == program and words not in said:
                complain(f"{name}: {program} does not say \"{words}\": {said[-300:]}")
        shutil.rmtree(folder, ignore_errors=True)
    if not quiet:
        print(f"{name}: {', '.join(codes)}")
print(f"{runs} runs, {bad} that did not hold")
sys.exit(bad > 0)
