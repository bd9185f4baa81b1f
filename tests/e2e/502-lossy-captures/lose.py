# SPDX-License-Identifier: Apache-2.0
import json
import os
import random
import shutil
import subprocess

from packets import Connection, write

RECORD = os.environ["BIN"] + "/record"


def connection(number, pipelined, swapped):
    """Six exchanges of one connection, of which one or two bursts of packets are lost."""
    c = Connection(port=10000 + number, isn=(random.getrandbits(32), random.getrandbits(32)))
    packets, waiting = c.open(), []
    for i in range(6):
        name = f"k{number}-{i}"
        packets += c.request(name, size=random.choice((60, 300, 1448)))
        waiting.append(name)
        if pipelined and random.random() < 0.4:
            continue
        for name in waiting:
            packets += c.answer("A" + name, size=random.choice((60, 300, 1448)), chunked=random.random() < 0.5)
        waiting = []
    for name in waiting:
        packets += c.answer("A" + name)
    packets += c.close()
    for _ in range(random.choice((1, 1, 2))):
        i = random.randrange(3, len(packets) - 3)
        del packets[i:i + random.choice((1, 1, 2, 3, 5, 8))]
    for _ in range(3 * swapped):
        i = random.randrange(len(packets) - 1)
        packets[i], packets[i + 1] = packets[i + 1], packets[i]
    return packets


for pipelined in (False, True):
    for swapped in (False, True):
        random.seed(pipelined * 2 + swapped)
        write("x.pcap", [p for k in range(400) for p in connection(k, pipelined, swapped)], step_ns=1000)
        shutil.rmtree("fx", ignore_errors=True)
        subprocess.run([RECORD, "--pcap", "x.pcap", "-o", "fx", "-q"], check=True, stdout=subprocess.DEVNULL)
        out = subprocess.run(["zstd", "-dcq", "fx/exchanges.jsonl.zst"], capture_output=True, check=True).stdout
        exchanges = [json.loads(line) for line in out.splitlines()]
        whole = [x for x in exchanges if not x.get("error")]
        wrong = [x for x in whole if x.get("request") and x["text"] != "A" + x["request"]["prompt"]]
        truncated = [x for x in whole if not x.get("request")]
        print(f"pipelined {pipelined}, swapped {swapped}: {len(wrong)} with another's answer, {len(truncated)} without their "
              f"request, {'more' if len(whole) > (800 if pipelined else 1700) else len(whole)} than "
              f"{800 if pipelined else 1700} of 2400 are whole")
