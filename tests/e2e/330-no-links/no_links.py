"""no_links.py FIXTURE - put something else in the place of each file of a fixture, and give it to
every program.

SPDX-License-Identifier: Apache-2.0
Prints the exit codes. The time is a detector of hangs, nothing else.
"""
import os
import re
import shutil
import socket
import subprocess
import sys

FIXTURE = sys.argv[1]
BIN = os.environ["BIN"]
FILES = ["manifest.json", "wire.zst", "exchanges.jsonl.zst", "steps.jsonl.zst", "ops.jsonl.zst", "ledger.jsonl.zst", "blobs.pack"]
PROGRAMS = {"verify": ["fixture", "verify", "bad"], "show": ["fixture", "show", "bad", "--all"], "ops": ["fixture", "ops", "bad"],
            "repair": ["fixture", "repair", "bad"], "pack": ["fixture", "pack", "bad", "-o", "out/x.tdz"],
            "extract": ["fixture", "extract", "bad", "-o", "out/cut", "--op", "0"], "replay": ["replay", "bad", "-o", "out/r", "--provider", "cpu"], "differ": ["differ", "bad", "good"],
            "gate": ["gate", "bad", "--provider", "cpu", "--lanes", "ops"]}
os.mkdir("outside")
listener = socket.socket(socket.AF_UNIX)


def put_link(path):
    outside = f"outside/{os.path.basename(path)}"
    shutil.copy(f"good/{os.path.basename(path)}", outside)
    with open(outside, "ab") as f: # a tail that a repair would cut off
        f.write(b"not of a fixture")
    os.symlink(f"../{outside}", path)


def put_socket(path):
    s = socket.socket(socket.AF_UNIX)
    s.bind(path)
    s.close()


KINDS = {"symbolic link": put_link, "symbolic link to a device": lambda p: os.symlink("/dev/zero", p), "FIFO": os.mkfifo,
         "socket": put_socket, "folder": os.mkdir}


def content(folder):
    return {n: open(f"{folder}/{n}", "rb").read() for n in os.listdir(folder)}


shutil.copytree(FIXTURE, "good")
for f in FILES:
    os.chmod(f"good/{f}", 0o600)
runs = 0
for kind, put in KINDS.items():
    for name in FILES:
        codes = []
        for what, command in PROGRAMS.items():
            shutil.rmtree("bad", ignore_errors=True)
            shutil.rmtree("out", ignore_errors=True)
            os.mkdir("out")
            shutil.copytree("good", "bad")
            os.unlink(f"bad/{name}")
            put(f"bad/{name}")
            before = content("outside")
            runs += 1
            try:
                r = subprocess.run([f"{BIN}/{command[0]}", *command[1:]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, timeout=60)
                code, said = r.returncode, r.stdout.decode(errors="replace")
            except subprocess.TimeoutExpired:
                code, said = "HANGS", ""
            codes.append(f"{what} {code}")
            if what == "verify" and not re.search(rf"{name}: (corrupt: )?.*is a {kind.split(' to ')[0]}; each file of a fixture must be a regular file", said):
                print(f"{kind}, {name}: verify does not name it: {said}")
            if "AddressSanitizer" in said or "runtime error" in said:
                print(said)
            if content("outside") != before:
                print(f"{kind}, {name}: {what} changed a file outside")
                shutil.rmtree("outside")
                os.mkdir("outside")
        print(f"{kind}, {name}: {', '.join(codes)}")
print(f"{runs} runs")
