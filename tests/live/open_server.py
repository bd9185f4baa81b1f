"""open_server.py - is a server that carries the tap for its whole life as good as one without it?

usage: open_server.py answers PORT FILE           ask the probes one by one, and write their answers
       open_server.py watch PORT FILE MINUTES PID RECORD WORK [OPTION of record]...
watch: clients with changing load, while record arms and disarms the tap every few seconds and is
killed every third time. After each recording, with nothing else in flight, the probes are asked one
by one: the answers must be those of FILE, which a server without the tap gave. PID is the server's
process; memory is that of it and its children, also of the GPU where nvidia-smi tells it. Fails unless
all answers are equal, and the memory of the last fifth is at most 2 % or 16 MiB above that of the second.
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


def memory(pid):
    """KiB of the server's processes; MiB of the GPU, or 0."""
    kib = 0
    for p in family(pid):
        try:
            kib += sum(int(line.split()[1]) for line in open(f"/proc/{p}/status") if line.startswith(("RssAnon:", "RssShmem:")))
        except OSError:
            pass
    try:
        rows = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"], capture_output=True, text=True).stdout.split("\n")
        mib = sum(int(row.split(",")[1]) for row in rows if row and int(row.split(",")[0]) in family(pid))
    except (OSError, IndexError, ValueError):
        mib = 0
    return kib, mib


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
            print(f"  record ended with {rc}: {said.strip().splitlines()[-1:]}", flush=True)
    shutil.rmtree(out, ignore_errors=True)


def watch(port, reference, minutes, pid, record, work, options):
    rng, count, seen = random.Random(1), collections.Counter(), []
    with open(f"{work}/open-suite.jsonl", "w") as f:
        f.writelines(json.dumps({"id": f"p{i}", "prompt": p}) + "\n" for i, p in enumerate(PROBES[:3]))
    probe(port)                                        # warm up
    start = time.monotonic()
    i = 0
    while time.monotonic() < start + 60 * minutes:
        until = time.monotonic() + rng.uniform(1, 6)
        clients = [threading.Thread(target=load, args=(port, until, rng.random(), count)) for _ in range(rng.choice([0, 1, 3, 8, 12]))]
        for c in clients:
            c.start()
        arm(record, port, work, i, options, rng, count)
        for c in clients:
            c.join()
        answers, pace = probe(port)
        wrong = sum(a != b for a, b in zip(answers, reference))
        count["probes"] += len(answers)
        count["other answers"] += wrong
        seen.append((time.monotonic() - start, pace, *memory(pid)))
        i += 1
    fifth = max(1, len(seen) // 5)
    early, late = seen[fifth:2 * fifth] or seen, seen[-fifth:]
    of = lambda rows, k: statistics.median(row[k] for row in rows)
    print(f"  {i} arms in {seen[-1][0] / 60:.1f} min:", dict(count))
    for name, k, unit, scale in (("a token of the probes", 1, "ms", 1000), ("memory of the server", 2, "MiB", 1 / 1024), ("memory of the GPU", 3, "MiB", 1)):
        print(f"  {name}: {of(early, k) * scale:.2f} {unit} in the second fifth, {of(late, k) * scale:.2f} in the last")
    flat = all(of(late, k) <= max(1.02 * of(early, k), of(early, k) + 16 * mib) for k, mib in ((2, 1024), (3, 1)))
    right = flat and count["probes"] and not count["other answers"] and not count["failed"] and count["killed"] and count["recorded"]
    print("the server is as one without the tap" if right else "WRONG: see above")
    return not right


if __name__ == "__main__":
    what, port, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    ask.model = model_of(port)
    if what == "answers":
        json.dump(probe(port)[0], open(path, "w"))
    else:
        sys.exit(watch(port, json.load(open(path)), float(sys.argv[4]), int(sys.argv[5]), sys.argv[6], sys.argv[7], sys.argv[8:]))
