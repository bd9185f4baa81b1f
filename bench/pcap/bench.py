# bench.py - tools that read a capture of SSE traffic, in turn: time, memory, exchanges recovered.
# usage: bench.py PROGRAMS MEGABYTES ROUNDS   (run.sh builds PROGRAMS)
# SPDX-License-Identifier: Apache-2.0
#
# Two files: one with all packets in order, one with some out of order and some lost. A round is all tools, one after the
# other, with the file in the page cache. Ratios are of two runs of one round; printed are medians over rounds, with the
# least and the most. Wall time depends on what else runs; CPU is that of the process and its threads.
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

PROGRAMS, MEGABYTES, ROUNDS = sys.argv[1], sys.argv[2], int(sys.argv[3])
TSHARK_ROUNDS = int(os.environ.get("TSHARK_ROUNDS", 1))
STREAMS, SEED = os.environ.get("STREAMS", "256"), os.environ.get("SEED", "1")
REORDERED, LOST = os.environ.get("REORDERED", "0.01"), os.environ.get("LOST", "0.001")
RECORD = os.environ["BIN"] + "/record"


def commands(pcap, out):
    """What each tool is asked, and how its result is checked."""
    was = os.environ.get("RECORD_WAS")
    record = ["--pcap", pcap, "--server", "10.0.0.1:8000", "-o", out + "/fixture", "-q"]
    return {
        "record": ([RECORD, *record], "fixture", out + "/fixture"),
        **({"was": ([was, *record], "fixture", out + "/fixture")} if was else {}),
        "tcpflow": (["tcpflow", "-r", pcap, "-o", out], "flows", out),
        "tshark": (["tshark", "-r", pcap, "-q", "-d", "tcp.port==8000,http", "--export-objects", "http," + out], "objects", out),
        "httpry": (["httpry", "-r", pcap, "-o", out + "/log", "tcp port 8000"], "log", out + "/log"),
    }


def threads_of(pid, got):
    """CPU seconds of each thread so far, the first one first."""
    try:
        for i, tid in enumerate(sorted(os.listdir(f"/proc/{pid}/task"), key=int)):
            fields = open(f"/proc/{pid}/task/{tid}/stat").read().rsplit(")", 1)[1].split()
            got[i] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        pass


def run(command):
    threads, status = {}, 0
    began = time.monotonic()
    p = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while True:
        pid, status, usage = os.wait4(p.pid, os.WNOHANG)
        if pid:
            break
        threads_of(p.pid, threads)
        time.sleep(0.02)
    p.returncode = os.waitstatus_to_exitcode(status)
    if p.returncode:
        sys.exit(f"bench/pcap: exit {p.returncode}: {' '.join(command)}")
    return {"wall": time.monotonic() - began, "cpu": usage.ru_utime + usage.ru_stime, "mib": usage.ru_maxrss / 1024, "writer": threads.get(1, 0)}


def recovered(kind, path, truth):
    if kind == "log":
        n = sum(line.split("\t")[3:4] == ["<"] for line in open(path, errors="replace"))
        return f"heads of {n} answers"
    n, intact, got, of_intact, claimed, wrong = subprocess.run([PROGRAMS + "/check", kind, path, truth], stdout=subprocess.PIPE, check=True, text=True).stdout.split()
    said = f"{got} of {n} byte for byte"
    if intact != n:
        said += f", {of_intact} of the {intact} that the file has whole"
    return said + (f"; {claimed} called whole, {wrong} of them wrongly" if int(claimed) >= 0 else "")


def spread(v, digits=2):
    return f"{statistics.median(v):.{digits}f} [{min(v):.{digits}f}, {max(v):.{digits}f}]"


def measure(name, work, reordered, lost):
    pcap, truth, out = work + "/traffic.pcap", work + "/truth", work + "/out"
    keys = ["keys"] if os.environ.get("KEYS") else []
    made = subprocess.run([PROGRAMS + "/traffic", pcap, truth, MEGABYTES, STREAMS, SEED, reordered, lost, *keys], stdout=subprocess.PIPE, check=True, text=True)
    print(f"\n{name}: {made.stdout.strip()}; load {os.getloadavg()[0]:.1f}", flush=True)
    got, said = {}, {}
    for r in range(ROUNDS):
        tools = list(commands(pcap, out).items())
        for tool, (command, kind, path) in tools[:: 1 if r % 2 else -1]:
            if not shutil.which(command[0]) or (tool == "tshark" and r >= TSHARK_ROUNDS):
                continue
            os.makedirs(out)
            got.setdefault(tool, {})[r] = run(command)
            said[tool] = recovered(kind, path, truth)
            shutil.rmtree(out)
    for tool in commands(pcap, out):
        if tool not in got:
            print(f"{tool:8} not measured")
            continue
        g = list(got[tool].values())
        print(f"{tool:8} wall s {spread([x['wall'] for x in g])}  CPU s {spread([x['cpu'] for x in g])}  peak MiB {spread([x['mib'] for x in g], 0)}  n {len(g)}  {said[tool]}")
    g = list(got["record"].values())
    print(f"record's writer thread (redaction, compression, files): {spread([x['writer'] / x['cpu'] for x in g])} of its CPU time")
    for tool in [t for t in got if t != "record"]:
        pairs = [(got[tool][r], got["record"][r]) for r in got[tool]]
        print(f"{tool} / record: wall {spread([a['wall'] / b['wall'] for a, b in pairs])}, CPU {spread([a['cpu'] / b['cpu'] for a, b in pairs])}, n {len(pairs)}",
              flush=True)


def main():
    work = tempfile.mkdtemp(prefix="tapedeck-pcap.")
    try:
        measure("in order", work, "0", "0")
        measure(f"{float(REORDERED):.1%} reordered, {float(LOST):.1%} lost", work, REORDERED, LOST)
    finally:
        shutil.rmtree(work)


main()
