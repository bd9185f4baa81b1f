# bench.py - clients of one SSE source in turn: how late each notes an event, and what an event costs it.
# usage: bench.py SOURCE RECORD PYTHON ROUNDS STREAMS...   (run.sh builds the source and finds the others)
# SPDX-License-Identifier: Apache-2.0
#
# lag        from the time that the source wrote into an event to the time that the client noted for it
# ITL error  of two events after one another: the distance of the noted times less that of the written ones, without sign
# CPU        of the client's process: record's as a whole, with its start, parsing, compression and the disk; that of
#            those in Python from the first request on
# Source and client have a CPU each. A round is all clients, one after the other. Ratios are of the two clients of one
# round; printed are medians over rounds, with the least and the most.
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

SECONDS, RATE = float(os.environ.get("BENCH_SECONDS", 6)), float(os.environ.get("RATE", 50))
SOURCE_CPU, CLIENT_CPU = os.environ.get("SOURCE_CPU", "0"), os.environ.get("CLIENT_CPU", "1")
EVENTS = int(SECONDS * RATE)


def quantiles(v):
    v = sorted(v)
    return [v[min(len(v) - 1, int(q * len(v)))] / 1e6 for q in (0.5, 0.9, 0.99)] if v else [float("nan")] * 3


def figures(name, n, streams, cpu_s):
    if sorted(map(len, streams)) != [EVENTS] * n:
        sys.exit(f"{name}: {sum(map(len, streams))} events in {len(streams)} streams, {n * EVENTS} in {n} were sent")
    lag = [at - sent for s in streams for at, sent in s]
    itl = [abs((b[0] - a[0]) - (b[1] - a[1])) for s in streams for a, b in zip(s, s[1:])]
    return {"events": len(lag), "lag": quantiles(lag), "itl": quantiles(itl), "cpu_us": cpu_s / len(lag) * 1e6}


def run(command):
    """Standard output, and the CPU seconds of the process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    p = subprocess.run(["taskset", "-c", CLIENT_CPU, *command], stdout=subprocess.PIPE, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return p.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def by_record(record, url, streams, work):
    suite, out = work + "/suite.jsonl", work + "/fixture"
    with open(suite, "w") as f:
        for i in range(streams):
            f.write(json.dumps({"id": f"p{i}", "prompt": "a", "max_tokens": EVENTS}) + "\n")
    shutil.rmtree(out, ignore_errors=True)
    _, cpu = run([record, "--server", url, "--api", "openai", "--suite", suite, "-k", "1", "-c", str(streams), "--gemms", "off",
                  "--scores", "off", "--logprobs", "0", "-o", out, "-q"])
    lines = subprocess.run(["zstd", "-dcq", out + "/exchanges.jsonl.zst"], stdout=subprocess.PIPE, check=True).stdout
    xs = [x for x in map(json.loads, lines.splitlines()) if x["phase"] == "timed"]
    got = [[(e[0], int(t)) for e, t in zip([e for e in x["events"] if e[1]], x["text"].split())] for x in xs]
    return figures("record", streams, got, cpu)


def by_python(python, name, url, streams, *more):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    out, _ = run([python, script, "http://" + url, str(streams), str(EVENTS), *more])
    out = json.loads(out)
    return figures(name, streams, out["streams"], out["cpu_s"])


def middle(rounds, key):
    return [statistics.median(r[key][i] for r in rounds) for i in range(3)]


def spread(v, unit=""):
    return f"{statistics.median(v):.3g}{unit} [{min(v):.3g}, {max(v):.3g}]"


def main():
    source, record, python, rounds, levels = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), [int(s) for s in sys.argv[5:]]
    work = tempfile.mkdtemp(prefix="tapedeck-client.")
    server = subprocess.Popen(["taskset", "-c", SOURCE_CPU, source, str(RATE)] + (["spread"] if os.environ.get("SPREAD") else []),
                              stdout=subprocess.PIPE, text=True)
    try:
        url = "127.0.0.1:" + server.stdout.readline().strip()
        print(f"{RATE:g} events/s a stream, {EVENTS} events each, {rounds} rounds; load before: {os.getloadavg()[0]:.2f}")
        print(f"{'streams':>7} {'client':8} {'events':>8} {'lag ms p50':>10} {'p90':>8} {'p99':>8} {'ITL err p50':>11} {'p90':>8} {'p99':>8} {'CPU us/event':>13}")
        for n in levels:
            clients = {"record": lambda: by_record(record, url, n, work)}
            if os.environ.get("RECORD_WAS"):
                clients["was"] = lambda: by_record(os.environ["RECORD_WAS"], url, n, work)
            if python:
                clients["aiohttp"] = lambda: by_python(python, "aiohttp_client.py", url, n)
            if python and subprocess.run([python, "-c", "import uvloop"], stderr=subprocess.DEVNULL).returncode == 0:
                clients["uvloop"] = lambda: by_python(python, "aiohttp_client.py", url, n, "uvloop")
            if python and os.environ.get("VLLM"):
                clients["vllm"] = lambda: by_python(python, "vllm_client.py", url, n, os.environ["VLLM"] + "/lib/endpoint_request_func.py")
            got = {c: [] for c in clients}
            for r in range(rounds):
                for c in list(clients)[:: 1 if r % 2 else -1]:
                    got[c].append(clients[c]())
            for c, g in got.items():
                lag, itl = middle(g, "lag"), middle(g, "itl")
                print(f"{n:7} {c:8} {g[0]['events']:8} {lag[0]:10.3f} {lag[1]:8.3f} {lag[2]:8.3f} {itl[0]:11.3f} {itl[1]:8.3f} {itl[2]:8.3f} "
                      f"{statistics.median(x['cpu_us'] for x in g):13.1f}", flush=True)
            for other in list(got)[1:]:
                pairs = list(zip(got[other], got["record"]))
                print(f"        {other} / record: lag p50 {spread([a['lag'][0] / b['lag'][0] for a, b in pairs])}, ITL error p50 "
                      f"{spread([a['itl'][0] / b['itl'][0] for a, b in pairs])}, CPU {spread([a['cpu_us'] / b['cpu_us'] for a, b in pairs])}", flush=True)
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(work)


main()
