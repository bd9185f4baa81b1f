#!/usr/bin/env python3
"""server.py - a server that does to each request what a row of modes.py says.

The mode stands in the prompt: "mode:NAME". "mode:cut-at-N" and "mode:reset-at-N" send N bytes of a
sound answer and end the connection. Other prompts, and all of them with --good, get a sound answer.
--all MODE does MODE to each prompt that names none, --probe PATH=MODE to a GET of PATH. Two lines are printed: "listening on
http://127.0.0.1:PORT" and "elsewhere HOST:PORT", a second listener that redirects name. At its end
(SIGTERM) it prints how many requests it had and how many connections came to the second listener.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os
import re
import signal
import socket
import ssl
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import modes

ap = argparse.ArgumentParser()
ap.add_argument("--good", action="store_true")
ap.add_argument("--all", default="", help="the mode of prompts that name none")
ap.add_argument("--probe", action="append", default=[], help="PATH=MODE; * is any path")
ap.add_argument("--raw", default="", help="do this to each connection before anything is read: silent, or a mode")
ap.add_argument("--tls", default="", help="speak TLS with this file of certificate and key")
ap.add_argument("--seconds", type=float, default=300)
args = ap.parse_args()
TABLE = {m.name: m for m in modes.MODES}
PROBES = dict(p.split("=", 1) for p in args.probe)
count = {"requests": 0, "elsewhere": 0}
lock = threading.Lock()


def script_of(name):
    at = re.fullmatch(r"(cut|reset)-at-(\d+)", name)
    if at:
        return [modes.BYTES[:int(at[2])], modes.CLOSE if at[1] == "cut" else modes.RESET]
    return TABLE[name].script


class Gone(Exception):
    pass


def end_by_reset(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raise Gone


def wait_for_the_end(sock):
    while sock.recv(65536):
        pass
    raise Gone


def play(sock, script):
    sent = 0
    for step in script:
        if step == "early":
            continue
        if isinstance(step, bytes):
            sock.sendall(step.replace(modes.ELSEWHERE, elsewhere_name))
        elif step[0] == "times":
            for _ in range(step[1]):
                sock.sendall(step[2])
        elif step[0] == "ever":
            while sent < modes.MAX_SENT:
                sock.sendall(step[1])
                sent += len(step[1])
                if step[2]:
                    time.sleep(step[2])
            raise Gone
        elif step[0] == "wait":
            time.sleep(step[1])
        elif step == modes.CLOSE:
            sock.shutdown(socket.SHUT_WR)
            raise Gone
        elif step == modes.RESET:
            end_by_reset(sock)
        elif step == modes.HOLD:
            wait_for_the_end(sock)


def read_more(sock, have):
    data = sock.recv(1 << 20)
    if not data:
        raise Gone
    return have + data


def reply_to_get(sock, path):
    mode = PROBES.get(path) or PROBES.get("*")
    if mode:
        return play(sock, script_of(mode))
    body = {"/health": b"{}", "/version": b'{"version":"0.99.hostile"}',
            "/v1/models": b'{"object":"list","data":[{"id":"m","object":"model","owned_by":"vllm","max_model_len":100000}]}'}.get(path)
    status = b"200 OK" if body else b"404 Not Found"
    sock.sendall(b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body or b""), body or b""))


def serve(sock):
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.settimeout(120)
    try:
        if args.raw:
            play(sock, script_of(args.raw))
        if args.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(args.tls)
            sock = context.wrap_socket(sock, server_side=True)
        have = b""
        while True:
            while b"\r\n\r\n" not in have:
                have = read_more(sock, have)
            head, have = have.split(b"\r\n\r\n", 1)
            with lock:
                count["requests"] += 1
            method, path, _ = head.split(b"\r\n")[0].decode().split(" ")
            if method == "GET":
                reply_to_get(sock, path)
                continue
            length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
            script, mode = None, None
            while len(have) < length and not (mode := re.search(rb"mode:([a-z0-9-]+);", have)):
                have = read_more(sock, have)
            mode = mode or re.search(rb"mode:([a-z0-9-]+);", have[:length])
            mode = mode[1].decode() if mode else args.all
            script = script_of(mode) if mode and not args.good else modes.GOOD
            if "early" not in script:
                while len(have) < length:
                    have = read_more(sock, have)
            play(sock, script)
            while len(have) < length:
                have = read_more(sock, have)
            have = have[length:]
    except (Gone, OSError, ssl.SSLError):
        pass
    finally:
        sock.close()


def listen(then):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", 0))
    s.listen(4096)

    def accept():
        while True:
            try:
                threading.Thread(target=then, args=(s.accept()[0],), daemon=True).start()
            except OSError:
                pass
    threading.Thread(target=accept, daemon=True).start()
    return "127.0.0.1:%d" % s.getsockname()[1]


def came_elsewhere(sock):
    with lock:
        count["elsewhere"] += 1
    sock.close()


def end(*_):
    print("requests %(requests)d, elsewhere %(elsewhere)d" % count, flush=True)
    os._exit(0)


threading.stack_size(256 << 10)
elsewhere_name = listen(came_elsewhere).encode()
here = listen(serve)
signal.signal(signal.SIGTERM, end)
print("elsewhere", elsewhere_name.decode())
print("listening on http://" + here, flush=True)
time.sleep(args.seconds)
