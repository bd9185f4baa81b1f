"""flip.py BIN URL - flip bits of fixtures and packs, and count what the programs say.
SPDX-License-Identifier: Apache-2.0
"""
import os
import random
import shutil
import subprocess
import sys

BIN, URL = sys.argv[1:3]
STREAMS = ["wire.zst", "exchanges.jsonl.zst", "steps.jsonl.zst", "ops.jsonl.zst", "ledger.jsonl.zst", "blobs.pack"]
rnd = random.Random(1)


def run(program, *args):
    p = subprocess.run([f"{BIN}/{program}", *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return p.returncode, p.stdout.decode(errors="replace")


def read(path):
    with open(path, "rb") as f:
        return f.read()


def write(path, data):
    if os.path.exists(path):
        os.chmod(path, 0o600)
    with open(path, "wb") as f:
        f.write(data)


def flipped(data, bit):
    out = bytearray(data)
    out[bit >> 3] ^= 1 << (bit & 7)
    return bytes(out)


def some_bits(n, data):
    """All bits of the first and last 32 bytes, where headers and checksums stand, and n of the others."""
    edge = [b for b in range(8 * len(data)) if b < 256 or b >= 8 * len(data) - 256]
    return rnd.sample(edge, min(len(edge), n)) + [rnd.randrange(8 * len(data)) for _ in range(n)]


class Count:
    """One line: were there enough runs, and those that did not end with that code."""

    def __init__(self, what, want):
        self.what, self.want, self.n, self.bad = what, want, 0, []

    def add(self, how, code):
        self.n += 1
        if code not in self.want:
            self.bad.append(f"{how}: {code}")

    def say(self):
        few = f"only {self.n} runs, " if self.n < 12 else ""
        print(f"{self.what}: {few}{len(self.bad)} of them not {self.want}", *self.bad[:5], sep="\n  ")


def folders(good, again, gate, n, n_gate, names):
    verify, differ, candidate, judged = (Count(f"{good}, {w}", [4]) for w in ("verify", "differ", "differ, as the candidate", "gate"))
    for name in names:
        shutil.rmtree("bad", ignore_errors=True)
        shutil.copytree(good, "bad")
        data = read(f"bad/{name}")
        for k, bit in enumerate(some_bits(n, data) if data else []):
            how = f"{name} bit {bit} of {8 * len(data)}"
            write(f"bad/{name}", flipped(data, bit))
            verify.add(how, run("fixture", "verify", "bad")[0])
            differ.add(how, run("differ", "bad", again)[0])
            if name != "blobs.pack":      # whose blobs are the recorded ones; those of a replay are not read
                candidate.add(how, run("differ", good, "bad")[0])
            if k % n < n_gate:
                judged.add(how, run("gate", "bad", *gate)[0])
    for c in (verify, differ, candidate, judged):
        c.say()


def same_as(folder, good):
    return all(read(f"{folder}/{name}") == read(f"{good}/{name}") for name in STREAMS + ["manifest.json"])


def packs(good, again, n):
    shutil.rmtree("out", ignore_errors=True)
    run("fixture", "pack", good, "-o", f"{good}.tdz")
    data = read(f"{good}.tdz")
    left = Count(f"{good} as a pack, something left by unpack", [False])
    verify, differ, unpack = (Count(f"{good} as a pack, {w}", [4]) for w in ("verify", "differ", "unpack"))
    whole = run("fixture", "verify", f"{good}.tdz")[0]
    cases = [(f"bit {b} of {8 * len(data)}", flipped(data, b)) for b in some_bits(n, data)]
    cases += [(f"cut by {k}", data[:-k]) for k in (1, 2, 3, 4, 5, 8, 20, len(data) // 2)]
    cases += [(f"junk {junk[:9]!r}", data + junk) for junk in (b"\0", b"x", b"garbage", data, data[:40], b"\x50\x2a\x4d\x18\4\0\0\0abcd")]
    for how, bad in cases:
        write("bad.tdz", bad)
        shutil.rmtree("out", ignore_errors=True)
        code, said = run("fixture", "unpack", "bad.tdz", "-o", "out")
        if code == 0 and same_as("out", good):   # a bit of zstd's header that says nothing of the content
            continue
        unpack.add(how, code)
        left.add(how, os.path.exists("out") or any("tmp" in f for f in os.listdir(".")))
        verify.add(how, run("fixture", "verify", "bad.tdz")[0])
        differ.add(how, run("differ", "bad.tdz", again)[0])
    print("the pack itself: verify", whole, "- bits that change nothing:", "few" if len(cases) - unpack.n < 12 else len(cases) - unpack.n)
    for c in (verify, differ, unpack, left):
        c.say()
    for tail in (b"garbage", data, b""):
        write("bad.tdz", data + tail if tail else data[:-2])
        print(run("fixture", "unpack", "bad.tdz", "-o", "end")[1].strip())


folders("answers", "answers-again", ["--server", URL, "--lanes", "tokens"], 12, 2, STREAMS[:2] + STREAMS[4:5])
folders("ops", "ops-again", ["--provider", "ref", "--op-repeat", "1"], 12, 2, STREAMS[2:])
packs("answers", "answers-again", 120)
packs("ops", "ops-again", 40)
