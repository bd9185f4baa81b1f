#!/usr/bin/env python3
"""soak.py - record many slow streams for a long time, and look at the memory, the descriptors and the
ledger of `record`. soak.sh says what the variables mean.

One process is the server (asyncio): each answer has EVENTS events of 3 tokens, PAUSE seconds apart,
and the thousandth request each time is cut off in its middle. It counts every byte of the requests
and answers. A round is SOAK_STREAMS requests at once.
SPDX-License-Identifier: Apache-2.0
"""
import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

MINUTES, STREAMS = float(os.environ.get("SOAK_MINUTES", "30")), int(os.environ.get("SOAK_STREAMS", "512"))
EVENTS, PAUSE, DROP = 10, 2.0, 1000
KEPT = 128  # bytes that record may keep of a request that has ended, whose exchange alone has 1,500
ROUND_S = EVENTS * PAUSE
count = {"requests": 0, "dropped": 0, "received": 0, "sent": 0, "answers": 0}


def event(i):
    text = json.dumps({"id": "c", "choices": [{"index": 0, "text": " a b c", "token_ids": [3 * i, 3 * i + 1, 3 * i + 2],
                                               "finish_reason": "length" if i + 1 == EVENTS else None}]})
    return b"data: " + text.encode() + b"\n\n"


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


async def answer(writer, number):
    def send(data):
        writer.write(data)
        count["sent"] += len(data)

    send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    await asyncio.sleep(random.random() * PAUSE)
    for i in range(EVENTS):
        send(chunk(event(i)))
        await writer.drain()
        if number % DROP == 0 and i == EVENTS // 2:
            count["dropped"] += 1
            return False
        await asyncio.sleep(PAUSE)
    send(chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
    count["answers"] += 1
    return True


async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            method, path, _ = head.split(b"\r\n")[0].split(b" ")
            if method == b"GET":
                body = {b"/health": b"{}", b"/version": b'{"version":"0.99.soak"}', b"/v1/models":
                        b'{"data":[{"id":"m","owned_by":"vllm","max_model_len":4096}]}'}.get(path, b"")
                writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (200 if body else 404, len(body), body))
                continue
            body = await reader.readexactly(int(re.search(rb"(?i)content-length: (\d+)", head)[1]))
            if path != b"/v1/completions":
                writer.write(b"HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n")
                continue
            count["requests"] += 1
            count["received"] += len(head) + len(body)
            if not await answer(writer, count["requests"]):
                break
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    writer.close()


async def server_main():
    s = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=4096)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: (print(json.dumps(count), flush=True), os._exit(0)))
    print(s.sockets[0].getsockname()[1], flush=True)
    await asyncio.sleep(MINUTES * 60 * 2 + 600)


def sample(pid, began):
    status = open(f"/proc/{pid}/status").read()
    kib = lambda key: int(re.search(key + r":\s+(\d+)", status)[1])
    return round(time.monotonic() - began), kib("VmRSS"), len(os.listdir(f"/proc/{pid}/fd")), kib("Threads")


cases, bad = 0, []


def check(ok, *words):
    global cases
    cases += 1
    print("  ok  " if ok else "  FAIL", *words)
    if not ok:
        bad.append(words)


def mean(values):
    return sum(values) / len(values)


def watch(proc):
    samples, began = [], time.monotonic()
    while proc.poll() is None:
        try:
            samples.append(sample(proc.pid, began))
        except (OSError, TypeError):
            break
        time.sleep(5)
    proc.wait()
    return samples


def main():
    rounds = max(3, round(MINUTES * 60 / (ROUND_S + 1)))
    srv = subprocess.Popen([sys.executable, __file__, "--server"], stdout=subprocess.PIPE, text=True)
    port = srv.stdout.readline().strip()
    folder = tempfile.mkdtemp()
    with open(folder + "/suite.jsonl", "w") as f:
        for i in range(STREAMS):
            f.write(json.dumps({"id": f"p{i}", "prompt": f"prompt {i}"}) + "\n")
    log = open(folder + "/log", "w+")
    began = time.monotonic()
    proc = subprocess.Popen([os.environ["BIN"] + "/record", "--server", "127.0.0.1:" + port, "-o", folder + "/fx", "--suite", folder + "/suite.jsonl",
                             "--repeat", str(rounds), "--concurrency", str(STREAMS), "--gemms", "off", "--scores", "off", "--allow-failures", "--quiet"], stdout=log, stderr=log)
    samples = watch(proc)
    cpu = os.times()
    srv.send_signal(signal.SIGTERM)
    truth = json.loads(srv.stdout.read())
    srv.wait()
    log.seek(0)
    said = log.read()[-500:]
    manifest = json.load(open(folder + "/fx/manifest.json"))
    sums = {k: (v["n"], v["bytes"]) for k, v in manifest["ledger"].items()}
    total = rounds * STREAMS + 1  # and the warm-up
    busy = [s for s in samples if s[2] > STREAMS]
    part = max(1, len(busy) // 5)
    first, last = busy[part:2 * part] or busy, busy[-part:]
    growth = mean([s[1] for s in last]) - mean([s[1] for s in first])
    print(f"{rounds} rounds of {STREAMS} streams in {time.monotonic() - began:.0f} s, record took {cpu.children_user + cpu.children_system:.1f} s of CPU; server: {truth}")
    print(f"RSS {mean([s[1] for s in first]):.0f} KiB in the second fifth, {mean([s[1] for s in last]):.0f} KiB in the last one; at most {max(s[1] for s in samples)} KiB")
    print(f"descriptors {min(s[2] for s in busy)} to {max(s[2] for s in busy)} while all streams run; threads {max(s[3] for s in samples)}")
    print("ledger:", sums)
    if os.environ.get("SOAK_TABLE"):
        with open(os.environ["SOAK_TABLE"], "w") as f:
            f.write("seconds rss_kib descriptors threads\n" + "".join("%d %d %d %d\n" % s for s in samples))
    check(proc.returncode == 0, "record ended with", proc.returncode, said if proc.returncode else "")
    check(truth["requests"] == total and truth["dropped"] == total // DROP and truth["answers"] == total - truth["dropped"], "the server had all requests:", truth)
    check(sums["exchanges.planned"][0] == total and sums["exchanges.sent"][0] == total, "planned and sent:", total)
    check(sums["exchanges.sent"][1] == truth["received"], "bytes sent are those that the server received:", truth["received"])
    check(sums["wire.received"][1] == truth["sent"], "bytes received are those that the server sent:", truth["sent"])
    check(sums.get("exchanges.failed.transfer", (0, 0))[0] == truth["dropped"], "failed are those that were dropped:", truth["dropped"])
    check(int(manifest["files"]["exchanges.jsonl.zst"]["records"]) == total, "every request is an exchange")
    check(subprocess.run([os.environ["BIN"] + "/fixture", "verify", folder + "/fx"], stdout=subprocess.DEVNULL).returncode == 0, "the fixture verifies")
    between = total * (mean([s[0] for s in last]) - mean([s[0] for s in first])) / samples[-1][0]
    each = growth * 1024 / between
    check(each < KEPT, f"memory is flat but for {each:.0f} bytes of a request, {KEPT} at most: {growth:+.0f} KiB in {between:.0f} requests")
    check(max(s[2] for s in busy) <= STREAMS + 32, "no descriptor is lost: at most", max(s[2] for s in busy))
    subprocess.run(["rm", "-rf", folder])
    print(f"{len(bad)} of {cases} cases failed" if bad else f"{cases} cases as they should be")
    sys.exit(bool(bad))


if "--server" in sys.argv:
    asyncio.run(server_main())
else:
    main()
