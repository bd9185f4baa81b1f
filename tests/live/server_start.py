#!/usr/bin/env python3
"""server_start.py - what the sleeping tap adds to the start of a server, and takes of the GPU.

usage: server_start.py PAIRS PORT LOG TAP... -- COMMAND...
TAP are the lines NAME=VALUE that load the tap (record --tap-env). COMMAND starts a vLLM that listens
on PORT. It is started PAIRS times without and PAIRS times with the tap, in turn, and ended each
time; each second pair begins with the tap. Prints for each start the seconds until it listens, the CPU seconds that its processes took
until then, what vLLM says of loading the model, the memory that the GPU has given away then, and the
median time between two events of some answers, one at a time; at last the ratios of pairs, their
medians and 95 % intervals, and by how much the times of equal servers differ. The servers' output is appended to LOG.
SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request

LIMIT = 300                              # seconds for a start
ANSWERS, TOKENS = 12, 128                # of which the first two are not timed


def used_mib():
    out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, text=True, check=True)
    return int(out.stdout.split()[0])


def listens(port):
    with socket.socket() as s:
        s.settimeout(1)
        return s.connect_ex(("127.0.0.1", port)) == 0


def wait_for_memory(mib):
    for _ in range(100):
        if used_mib() <= mib:
            return
        time.sleep(0.2)


def answer_gaps(port):
    """Ms between the events of an answer."""
    body = {"model": "m", "prompt": "one two three", "max_tokens": TOKENS, "temperature": 0, "stream": True, "ignore_eos": True}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as events:
        times = [time.monotonic() for line in events if line.startswith(b"data: {")]
    return [1000 * (b - a) for a, b in zip(times, times[1:])]


def median_gap(port, server, patience_s=60):
    """Median ms between events, once the server answers: a port may listen before that."""
    until = time.monotonic() + patience_s
    while True:
        try:
            answer_gaps(port)
            break
        except (urllib.error.URLError, OSError):
            if time.monotonic() > until or server.poll() is not None:
                sys.exit("server_start: the server listens, and does not answer")
            time.sleep(0.2)
    answer_gaps(port)
    return statistics.median(gap for _ in range(ANSWERS - 2) for gap in answer_gaps(port))


def cpu_seconds(session):
    """CPU seconds of the processes of a session, and of their children that have ended."""
    ticks = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as f:
                fields = f.read().rsplit(") ", 1)[1].split()
        except OSError:
            continue                     # it has ended
        if int(fields[3]) == session:
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def interval(values, n=4000):
    """95 % interval of the median, by bootstrap."""
    medians = sorted(statistics.median(random.choices(values, k=len(values))) for _ in range(n))
    return medians[int(0.025 * n)], medians[int(0.975 * n)]


def start(command, env, port, log):
    """Seconds until it listens, CPU seconds, seconds that vLLM took to load the model, MiB of the GPU, ms between events."""
    before, begin = used_mib(), time.monotonic()
    path = log.name
    with open(path, "rb") as old:
        seen = len(old.read())
    server = subprocess.Popen(command, env=os.environ | env, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        while not listens(port):
            if server.poll() is not None or time.monotonic() - begin > LIMIT:
                sys.exit(f"server_start: the server did not start, see {path}")
            time.sleep(0.05)
        seconds, cpu, mib = time.monotonic() - begin, cpu_seconds(server.pid), used_mib() - before
        gap = median_gap(port, server)
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(server.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    wait_for_memory(before)
    with open(path, "rb") as f:
        f.seek(seen)
        text = f.read().decode(errors="replace")
    loading = re.search(r"Model loading took .*?([0-9.]+) seconds", text)
    return seconds, cpu, float(loading.group(1)) if loading else float("nan"), mib, gap


def main():
    at = sys.argv.index("--")
    pairs, port, path, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[at + 1:]
    tap = dict(line.split("=", 1) for line in sys.argv[4:at])
    rows = {"without": [], "with": []}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of `finally`: no server stays
    with open(path, "ab") as log:
        start(command, {}, port, log)        # the first one fills caches
        for i in range(pairs):
            order = [("without", {}), ("with", tap)]
            for how, env in reversed(order) if i % 2 else order:
                rows[how].append(start(command, env, port, log))
                print("%-7s the tap: listens after %.1f s, %.1f s of CPU, model loaded in %.2f s, %d MiB of the GPU; ITL %.3f ms" % (how, *rows[how][-1]), flush=True)
    random.seed(1)
    for i, name in enumerate(("start", "CPU", "loading", "memory", "ITL")):
        ratios = [b[i] / a[i] for a, b in zip(rows["without"], rows["with"]) if a[i]]
        if not ratios:
            continue
        print(f"{name}: with / without {' '.join(f'{r:.3f}' for r in ratios)}; median {statistics.median(ratios):.3f} [%.3f, %.3f]" % interval(ratios))
    equal = [max(a[4], b[4]) / min(a[4], b[4]) for same in rows.values() for n, a in enumerate(same) for b in same[:n]]
    if equal:
        print(f"ITL of equal servers, the slower over the faster: median {statistics.median(equal):.3f}, at most {max(equal):.3f}")
    print(f"memory: {statistics.median(b[3] - a[3] for a, b in zip(rows['without'], rows['with'])):.0f} MiB more with the tap")


main()
