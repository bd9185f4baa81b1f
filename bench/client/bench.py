# bench.py - clients of one SSE source in turn: how late each notes an event, and what an event costs it.
# usage: bench.py SOURCE RECORD PYTHON ROUNDS STREAMS...   (run.sh builds the source and finds the others)
# SPDX-License-Identifier: Apache-2.0
#
# lag        from the time that the source wrote into an event to the time that the client noted for it
# ITL error  of two events after one another: the distance of the noted times less that of the written ones, without sign
# CPU        of the client's process: record's as a whole, with its start, parsing, compression and the disk; that of
#            those in Python from the first request on
# Of load tools, run as programs (tools.py):
# CPU        of all of a tool's processes, start and report too, at EVENTS events a stream and at a fifth of them: the difference
#            of both, by the difference of events. No other client is measured so: theirs holds what it says above
# ITL error  of vllm-bench as above, of the texts and times that it saves. Of the others the median and p99 that they tell less
#            the source's 1/RATE, with a sign: of AIPerf's ICL (each gap), of GuideLLM's ITL (one value an answer, its mean)
# lag        of guidellm and aiperf is not known: "-"
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

import tools

SECONDS, RATE = float(os.environ.get("BENCH_SECONDS", 6)), float(os.environ.get("RATE", 50))
SOURCE_CPU, CLIENT_CPU = os.environ.get("SOURCE_CPU", "0"), os.environ.get("CLIENT_CPU", "1")
EVENTS = int(SECONDS * RATE)
FEWER = EVENTS // 5
UNKNOWN = [float("nan")] * 3


def quantiles(v):
    v = sorted(v)
    return [v[min(len(v) - 1, int(q * len(v)))] / 1e6 for q in (0.5, 0.9, 0.99)] if v else UNKNOWN


def figures(name, n, streams, cpu_s):
    if sorted(map(len, streams)) != [EVENTS] * n:
        sys.exit(f"{name}: {sum(map(len, streams))} events in {len(streams)} streams, {n * EVENTS} in {n} were sent")
    lag = [at - sent for s in streams for at, sent in s]
    itl = [abs((b[0] - a[0]) - (b[1] - a[1])) for s in streams for a, b in zip(s, s[1:])]
    return {"events": len(lag), "lag": quantiles(lag), "itl": quantiles(itl), "cpu_us": cpu_s / len(lag) * 1e6}


def cpu_of(call):
    """What call() returns, and the CPU seconds of the processes that ended meanwhile."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    value = call()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return value, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(command):
    """Standard output, and the CPU seconds of the process."""
    p, cpu = cpu_of(lambda: subprocess.run(["taskset", "-c", CLIENT_CPU, *command], stdout=subprocess.PIPE, check=True))
    return p.stdout, cpu


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


def by_tool(name, exe, url, streams, work):
    """A tool at two lengths of answers; all but CPU is of EVENTS."""
    got = []
    for events in FEWER, EVENTS:
        got.append(tools.run(name, exe, "http://" + url, streams, events, CLIENT_CPU, work + "/" + name, cpu_of))
        if got[-1]["counts"] != [events] * streams:
            sys.exit(f"{name}: counted {sum(got[-1]['counts'])} events in {len(got[-1]['counts'])} answers, {streams * events} in "
                     f"{streams} were sent")
    few, all_of_them = got
    cpu_us = (all_of_them["cpu_s"] - few["cpu_s"]) / (streams * (EVENTS - FEWER)) * 1e6
    if "streams" in all_of_them:
        known = figures(name, streams, all_of_them["streams"], 0)
    else:
        error = [t - 1e3 / RATE for t in list(all_of_them["told"].values())[-1]]
        known = {"events": streams * EVENTS, "lag": UNKNOWN, "itl": [error[0], float("nan"), error[1]]}
    return dict(known, cpu_us=cpu_us, whole_s=[few["cpu_s"], all_of_them["cpu_s"]], told=all_of_them["told"])


def middle(rounds, key):
    return [statistics.median(r[key][i] for r in rounds) for i in range(len(rounds[0][key]))]


def column(value, width):
    return f"{'-':>{width}}" if value != value else f"{value:{width}.3f}"


def spread(v, unit=""):
    return f"{statistics.median(v):.3g}{unit} [{min(v):.3g}, {max(v):.3g}]"


def main():
    source, record, python, rounds, levels = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), [int(s) for s in sys.argv[5:]]
    programs = tools.given()
    work = tempfile.mkdtemp(prefix="tapedeck-client.")
    server = subprocess.Popen(["taskset", "-c", SOURCE_CPU, source, str(RATE)] + (["spread"] if os.environ.get("SPREAD") else []),
                              stdout=subprocess.PIPE, text=True)
    try:
        url = "127.0.0.1:" + server.stdout.readline().strip()
        print(f"{RATE:g} events/s a stream, {EVENTS} events each, {rounds} rounds; load before: {os.getloadavg()[0]:.2f}")
        print(f"{'streams':>7} {'client':10} {'events':>8} {'lag ms p50':>10} {'p90':>8} {'p99':>8} {'ITL err p50':>11} {'p90':>8} {'p99':>8} {'CPU us/event':>13}")
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
            for name, exe in programs.items():
                clients[name] = lambda name=name, exe=exe: by_tool(name, exe, url, n, work)
            got = {c: [] for c in clients}
            for r in range(rounds):
                for c in list(clients)[:: 1 if r % 2 else -1]:
                    got[c].append(clients[c]())
            for c, g in got.items():
                lag, itl = middle(g, "lag"), middle(g, "itl")
                columns = " ".join(column(v, w) for v, w in zip(lag + itl, (10, 8, 8, 11, 8, 8)))
                print(f"{n:7} {c:10} {g[0]['events']:8} {columns} {statistics.median(x['cpu_us'] for x in g):13.1f}", flush=True)
            for c in programs:
                whole = middle(got[c], "whole_s")
                told = {term: [statistics.median(g["told"][term][i] for g in got[c]) for i in (0, 1)] for term in got[c][0]["told"]}
                terms = [f"{term} {p50:.3f} p50, {p99:.3f} p99" for term, (p50, p99) in told.items()]
                print(f"        {c}: CPU {whole[0]:.2f} s at {FEWER} events a stream, {whole[1]:.2f} s at {EVENTS}; it tells {'; '.join(terms)} ms "
                      f"where the source has {1e3 / RATE:g}")
            for other in list(got)[1:]:
                pairs = list(zip(got[other], got["record"]))
                ratios = []
                if got[other][0]["lag"][0] == got[other][0]["lag"][0]:  # known
                    ratios += [f"{what} {spread([a[key][0] / b[key][0] for a, b in pairs])}"
                               for what, key in (("lag p50", "lag"), ("ITL error p50", "itl"))]
                ratios.append(f"CPU {spread([a['cpu_us'] / b['cpu_us'] for a, b in pairs])}")
                print(f"        {other} / record: {', '.join(ratios)}", flush=True)
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(work)


main()
