#!/usr/bin/env python3
"""server_start.py - what the sleeping tap adds to the start of a server, and takes of the GPU.

usage: server_start.py PAIRS PORT LOG TAP... -- COMMAND...
TAP are the lines NAME=VALUE that load the tap (record --tap-env). COMMAND starts a vLLM that listens
on PORT. It is started PAIRS times without and PAIRS times with the tap, in turn, and ended each
time. Prints for each start the seconds until it listens, what vLLM says of loading the model, and
the memory that the GPU has given away then; at last the ratios of pairs. The servers' output is
appended to LOG.
SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import time

LIMIT = 300                              # seconds for a start


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


def start(command, env, port, log):
    """Seconds until it listens, seconds that vLLM took to load the model, MiB of the GPU."""
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
        seconds, mib = time.monotonic() - begin, used_mib() - before
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
    return seconds, float(loading.group(1)) if loading else float("nan"), mib


def main():
    at = sys.argv.index("--")
    pairs, port, path, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[at + 1:]
    tap = dict(line.split("=", 1) for line in sys.argv[4:at])
    rows = {"without": [], "with": []}
    with open(path, "ab") as log:
        start(command, {}, port, log)        # the first one fills caches
        for _ in range(pairs):
            for how, env in (("without", {}), ("with", tap)):
                rows[how].append(start(command, env, port, log))
                print("%-7s the tap: listens after %.1f s, model loaded in %.2f s, %d MiB of the GPU" % (how, *rows[how][-1]), flush=True)
    for i, name in enumerate(("start", "loading", "memory")):
        ratios = [b[i] / a[i] for a, b in zip(rows["without"], rows["with"])]
        print(f"{name}: with / without {' '.join(f'{r:.3f}' for r in ratios)}; median {statistics.median(ratios):.3f}")
    print(f"memory: {statistics.median(b[2] - a[2] for a, b in zip(rows['without'], rows['with'])):.0f} MiB more with the tap")


main()
