# captures.py - record captures that were written by packets.py, and print a line of each: its exchanges, and what
# the ledger says beside.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import shutil
import subprocess

from packets import write

RECORD = os.environ["BIN"] + "/record"
USUAL = ["capture.packets", "capture.packets.tcp", "capture.connections", "capture.bytes.in_order", "capture.requests",
         "capture.exchanges", "capture.segments.no_connection"]


def lines_of(path):
    out = subprocess.run(["zstd", "-dcq", path], capture_output=True, check=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def balance(n):
    """Nothing is lost in silence: what does not add up is printed."""
    def of(name, what):
        return n.get("capture." + name, {}).get(what, 0)
    packets = sum(v["n"] for k, v in n.items() if k.startswith("capture.packets.") and not k.endswith("kernel"))
    http = sum(of(x, "bytes") for x in ("bytes.skipped", "requests.other", "exchanges", "connections.no_http"))
    wrong = []
    if packets != of("packets", "n"):
        wrong.append("packets")
    if of("connections", "bytes") != of("bytes.in_order", "bytes") + of("bytes.repeated", "bytes") + \
            of("bytes.no_room", "bytes") + of("bytes.undecided", "bytes"):
        wrong.append("payload")
    if of("bytes.in_order", "bytes") != http:
        wrong.append("messages")
    return wrong and " DOES NOT ADD UP: " + ", ".join(wrong) or ""


def show(name, *options, file="x.pcap", data=None, more=(), brief=False):
    shutil.rmtree("fx", ignore_errors=True)
    r = subprocess.run([RECORD, "--pcap", file, "-o", "fx", "-q", *options], input=data, capture_output=True)
    print(f"{name}:", end="")
    if r.returncode:
        print(f" exit {r.returncode}, " + r.stderr.decode().strip().splitlines()[-1].replace("record: error: ", ""))
        return
    exchanges = lines_of("fx/exchanges.jsonl.zst")
    if brief:
        whole_ones = [x for x in exchanges if not x.get("error")]
        print(f" {len(exchanges)} exchanges, {len(whole_ones)} whole,", sum(
            x["text"] != "A" + x["request"]["prompt"] for x in whole_ones), "with another's answer", end="")
        exchanges = []
    for x in exchanges:
        print(f" [{x['request']['prompt'] if x.get('request') else '?'} -> {x.get('text')!r}"
              + (f" {x['error_kind']}: {x['error']}" if x.get("error") else "") + "]", end="")
        for key in more:
            print(f" {key}={x.get(key)}", end="")
    ledger = json.load(open("fx/manifest.json"))["ledger"]
    odd = {k[8:]: v for k, v in ledger.items() if k.startswith("capture.") and k not in USUAL}
    print("".join(f" {k}={v['n'] or v['bytes']}" for k, v in sorted(odd.items())) + balance(ledger))
    if r.stderr.strip():
        print("   ", r.stderr.decode().strip())


def case(name, packets, *options, more=(), brief=False, **how):
    write("x.pcap", packets, **how)
    show(name, *options, more=more, brief=brief)
