"""open_server.py - is a server that carries the tap for its whole life as good as one without it?

usage: open_server.py answers PORT FILE           ask the probes one by one, and write their answers
       open_server.py watch PORT PID OTHER_PORT OTHER_PID FILE MINUTES RECORD WORK [OPTION of record]...
watch: clients with changing load, while record arms and disarms the tap every few seconds and is
killed every third time. OTHER is a server without the tap, which gets the same load. After each
recording, with nothing else in flight, the probes are asked one by one: the answers must be those of
FILE, which a server without the tap gave. PID and OTHER_PID are the servers' processes; memory is that
of each process and its children, on the GPU where nvidia-smi tells it. Each minute the summary so far
is written to WORK/open.so-far. Fails unless all answers are equal, and the memory of the last fifth is
at most 2 % or 16 MiB above that of the second, beside what the other server's grew.
SPDX-License-Identifier: Apache-2.0
"""
import collections
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import threading
import time
import urllib.request

WORDS = "the kernel was wrong for last few columns of one shape and nobody saw it until a real model ran".split()
PROBES = [" ".join(random.Random(i).choices(WORDS, k=4 + 9 * i)) for i in range(8)]
PROBE_TOKENS = 48


def ask(port, prompt, tokens):
    body = json.dumps({"model": ask.model, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "seed": 0}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)["choices"][0]["text"]


def probe(port):
    """The answers, and the seconds of a token."""
    start = time.monotonic()
    answers = [ask(port, p, PROBE_TOKENS) for p in PROBES]
    return answers, (time.monotonic() - start) / (len(PROBES) * PROBE_TOKENS)


def model_of(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=120) as answer:
        return json.load(answer)["data"][0]["id"]


def family(pid):
    """The process and those below it."""
    out = [pid]
    for p in out:
        try:
            for thread in os.listdir(f"/proc/{p}/task"):
                out += [int(c) for c in open(f"/proc/{p}/task/{thread}/children").read().split() if int(c) not in out]
        except OSError:
            pass
    return out


def gpu_memory():
    """MiB of the GPU by process; {}: nvidia-smi does not tell."""
    try:
        rows = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"], capture_output=True, text=True).stdout.split("\n")
        return {int(row.split(",")[0]): int(row.split(",")[1]) for row in rows if row}
    except (OSError, IndexError, ValueError):
        return {}


def memory(pid):
    """Of each of the server's processes: its name, KiB, MiB of the GPU."""
    gpu, out = gpu_memory(), {}
    for p in family(pid):
        try:
            kib = sum(int(line.split()[1]) for line in open(f"/proc/{p}/status") if line.startswith(("RssAnon:", "RssShmem:")))
            out[p] = (open(f"/proc/{p}/comm").read().strip(), kib, gpu.get(p, 0))
        except OSError:
            pass
    return out


def kinds_of_memory(pid):
    """KiB of the server's processes together, by what they are mapped from: heap, anonymous memory, each file."""
    out = collections.Counter()
    for p in family(pid):
        try:
            for line in open(f"/proc/{p}/smaps"):
                word = line.split()
                if "-" in word[0] and not word[0].endswith(":"):
                    kind = " ".join(word[5:]) or "anonymous"
                elif word[0] in ("Anonymous:", "Shared_Dirty:"):
                    out[kind] += int(word[1])
        except OSError:
            pass
    return out


def load(port, until, seed, count):
    """A client that asks until then."""
    rng = random.Random(seed)
    while time.monotonic() < until:
        try:
            ask(port, " ".join(rng.choices(WORDS, k=rng.randint(2, 120))), rng.randint(4, 64))
            count["answers"] += 1
        except OSError as e:
            count["failed"] += 1
            print(f"  a client: {e}", flush=True)


def arm(record, port, work, i, options, rng, count):
    """A recording of a few seconds, each third of which is killed."""
    out = f"{work}/open-{i}"
    shutil.rmtree(out, ignore_errors=True)
    command = [record, "-o", out, "--server", f"127.0.0.1:{port}", "--suite", f"{work}/open-suite.jsonl", "--repeat", "1", "-n", "16",
               "--gemms", rng.choice(["auto", "all", "25%"]), "--timeout", "60", *options]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if i % 3 == 2:
        time.sleep(rng.uniform(0.05, 2))
        child.kill()
        count["killed"] += child.wait() < 0
    else:
        said, rc = child.communicate()[1], child.returncode
        count["recorded" if rc == 0 else f"record ended with {rc}"] += 1
        if rc:
            print(f"  record ended with {rc}, {command[command.index('--gemms') + 1]}:\n" + "".join(f"    {line}\n" for line in said.strip().splitlines()), flush=True)
    shutil.rmtree(out, ignore_errors=True)


def as_record_asks(port):
    """What record asks of the server that it records."""
    for prompt in 3 * PROBES[:3]:
        ask(port, prompt, 16)


Server = collections.namedtuple("Server", "name port pid")


class Watch:
    """What was seen: a row a recording."""

    def __init__(self, servers):
        self.servers, self.rows, self.count, self.kinds = servers, [], collections.Counter(), []

    def add(self, minute, paces):
        self.rows.append((minute, paces, [memory(s.pid) for s in self.servers]))
        self.kinds = [self.kinds[0] if self.kinds else kinds_of_memory(self.servers[0].pid), kinds_of_memory(self.servers[0].pid)]

    def sums(self, row):
        """Of each server: seconds of a token, KiB, MiB of the GPU."""
        return [(pace, sum(m[1] for m in mem.values()), sum(m[2] for m in mem.values())) for pace, mem in zip(row[1], row[2])]

    def fifths(self):
        """The medians of the second and of the last fifth: [server][figure]."""
        fifth = max(1, len(self.rows) // 5)
        early, late = self.rows[fifth:2 * fifth] or self.rows, self.rows[-fifth:]
        return [[[statistics.median(self.sums(r)[i][k] for r in rows) for k in range(3)] for i in range(len(self.servers))] for rows in (early, late)]

    def is_flat(self):
        early, late = self.fifths()
        return all(late[0][k] <= max(1.02 * early[0][k], early[0][k] + 16 * mib) + max(0, late[1][k] - early[1][k]) for k, mib in ((1, 1024), (2, 1)))

    def text(self):
        early, late = self.fifths()
        out = [f"  {len(self.rows)} arms in {self.rows[-1][0]:.1f} min: {dict(self.count)}"]
        for name, k, unit, scale in (("a token of the probes", 0, "ms", 1000), ("memory of the server", 1, "MiB", 1 / 1024), ("memory of the GPU", 2, "MiB", 1)):
            each = (f"{s.name} {early[i][k] * scale:.2f} {unit} in the second fifth, {late[i][k] * scale:.2f} in the last" for i, s in enumerate(self.servers))
            out.append(f"  {name}: " + "; ".join(each))
        for i, s in enumerate(self.servers):
            for when, row in (("begin", self.rows[0]), ("middle", self.rows[len(self.rows) // 2]), ("end", self.rows[-1])):
                each = (f"{name} {kib / 1024:.1f} + {mib} MiB" for name, kib, mib in row[2][i].values())
                out.append(f"  {s.name}, {when} ({row[0]:.1f} min), memory + the GPU's, by process: " + "; ".join(each))
        grown = [(n - self.kinds[0][kind], kind) for kind, n in self.kinds[1].items() if abs(n - self.kinds[0][kind]) >= 512]
        out.append(f"  {self.servers[0].name}, from begin to end, MiB: " + ("; ".join(f"{kib / 1024:+.1f} {kind}" for kib, kind in sorted(grown, reverse=True)) or "nothing"))
        return "\n".join(out)


def watch(tapped, other, reference, minutes, record, work, options):
    rng, w = random.Random(1), Watch([tapped, other])
    with open(f"{work}/open-suite.jsonl", "w") as f:
        f.writelines(json.dumps({"id": f"p{i}", "prompt": p}) + "\n" for i, p in enumerate(PROBES[:3]))
    for s in w.servers:
        probe(s.port)                                  # warm up
    start = said = time.monotonic()
    i = 0
    while time.monotonic() < start + 60 * minutes:
        until = time.monotonic() + rng.uniform(1, 6)
        clients = []
        for seed in [rng.random() for _ in range(rng.choice([0, 1, 3, 8, 12]))]:
            clients += [threading.Thread(target=load, args=(s.port, until, seed, w.count)) for s in w.servers]
        clients.append(threading.Thread(target=as_record_asks, args=(other.port,)))
        for c in clients:
            c.start()
        arm(record, tapped.port, work, i, options, rng, w.count)
        for c in clients:
            c.join()
        answers, pace = probe(tapped.port)
        _, other_pace = probe(other.port)
        w.count["probes"] += len(answers)
        w.count["other answers"] += sum(a != b for a, b in zip(answers, reference))
        w.add((time.monotonic() - start) / 60, (pace, other_pace))
        i += 1
        if time.monotonic() > said + 60:
            said = time.monotonic()
            with open(f"{work}/open.so-far", "w") as f:
                f.write(w.text() + "\n")
    print(w.text())
    count = w.count
    right = w.is_flat() and count["probes"] and not count["other answers"] and not count["failed"] and count["killed"] and count["recorded"]
    print("the server is as one without the tap" if right else "WRONG: see above")
    return not right


if __name__ == "__main__":
    what, port = sys.argv[1], int(sys.argv[2])
    ask.model = model_of(port)
    if what == "answers":
        json.dump(probe(port)[0], open(sys.argv[3], "w"))
    else:
        sys.exit(watch(Server("with the tap", port, int(sys.argv[3])), Server("without", int(sys.argv[4]), int(sys.argv[5])), json.load(open(sys.argv[6])),
                       float(sys.argv[7]), sys.argv[8], sys.argv[9], sys.argv[10:]))
