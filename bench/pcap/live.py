# live.py - record --passive beside traffic on the loopback: packets dropped, CPU.
# usage: live.py FOLDER ROUNDS   (live.sh builds FOLDER/loopback)
# SPDX-License-Identifier: Apache-2.0
#
# Packets are counted by the ledger: those that came, and those that the kernel had no room for. CPU is that of record as a
# whole, from its start to its end, over the time of the traffic; rounds without it tell what the capture takes from the traffic.
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time

WORK, ROUNDS = sys.argv[1], int(sys.argv[2])
STREAMS, SECONDS = os.environ.get("STREAMS", "256"), os.environ.get("BENCH_SECONDS", "10")
RATES = os.environ.get("RATES", "20 0").split()
FIXTURE = WORK + "/fixture"


def traffic(rate):
    p = subprocess.Popen([WORK + "/loopback", STREAMS, rate, SECONDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return p, p.stdout.readline().strip()


def finish(p):
    events, seconds = p.communicate("\n")[0].split()
    return int(events), float(seconds)


def alone(rate):
    p, _ = traffic(rate)
    events, seconds = finish(p)
    return events / seconds


def captured(rate):
    shutil.rmtree(FIXTURE, ignore_errors=True)
    p, port = traffic(rate)
    errors = open(WORK + "/errors", "w+")
    record = subprocess.Popen([os.environ["BIN"] + "/record", "--passive", "--interface", "lo", "--server", "127.0.0.1:" + port, "-o", FIXTURE],
                              stdout=subprocess.DEVNULL, stderr=errors, env={**os.environ, "TD_LOG": "2"})
    until = time.monotonic() + 30
    while "listening" not in open(WORK + "/errors").read():
        if record.poll() is not None or time.monotonic() > until:
            record.kill(), p.kill()
            sys.exit("bench/pcap: record does not listen: " + open(WORK + "/errors").read())
        time.sleep(0.05)
    events, seconds = finish(p)
    time.sleep(0.5)
    record.send_signal(signal.SIGINT)
    _, status, usage = os.wait4(record.pid, 0)
    record.returncode = os.waitstatus_to_exitcode(status)
    if record.returncode:
        sys.exit(open(WORK + "/errors").read())
    ledger = json.load(open(FIXTURE + "/manifest.json"))["ledger"]

    def count(name):
        v = ledger.get(name, 0)
        return v.get("n", 0) if isinstance(v, dict) else v[0] if isinstance(v, list) else v

    came, dropped = count("capture.packets"), count("capture.packets.dropped_by_kernel")
    return {"events": events / seconds, "packets": (came + dropped) / seconds, "dropped": dropped / max(1, came + dropped), "n_dropped": dropped,
            "cpu": (usage.ru_utime + usage.ru_stime) / seconds, "us": (usage.ru_utime + usage.ru_stime) / max(1, came) * 1e6,
            "mib": usage.ru_maxrss / 1024, "whole": count("capture.exchanges") - count("capture.exchanges.not_whole")}


def spread(v, digits=0):
    return f"{statistics.median(v):,.{digits}f} [{min(v):,.{digits}f}, {max(v):,.{digits}f}]"


def main():
    for rate in RATES:
        print(f"{STREAMS} streams, {rate if float(rate) else 'all'} events/s each, {SECONDS} s; load {os.getloadavg()[0]:.1f}", flush=True)
        without, got = [], []
        for _ in range(ROUNDS):
            without.append(alone(rate))
            got.append(captured(rate))
        v = {k: [g[k] for g in got] for k in got[0]}
        print(f"  events/s alone {spread(without)}, captured {spread(v['events'])}; packets/s {spread(v['packets'])}")
        print(f"  dropped {spread(v['n_dropped'])} packets, of all {spread([100 * x for x in v['dropped']], 2)} %; whole exchanges {spread(v['whole'])} of {STREAMS}")
        print(f"  CPU {spread([100 * x for x in v['cpu']])} % of one, {spread(v['us'], 2)} us a packet; peak MiB {spread(v['mib'])}", flush=True)


main()
