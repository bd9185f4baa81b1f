#!/usr/bin/env python3
"""cut_stream.py LISTEN_PORT SERVER_PORT PID EVENTS - a server that dies in the middle of an answer,
at the same event every time.

Passes connections on to the server, and counts the SSE events that it streams. When the EVENTS-th
begins, it kills the server (SIGKILL to process PID alone) and ends: the client sees a stream that
is cut, and later nobody who listens.
SPDX-License-Identifier: Apache-2.0
"""
import os
import signal
import socket
import sys
import threading

listen_port, server_port, pid, wanted = (int(x) for x in sys.argv[1:5])
lock = threading.Lock()
seen = 0


def pump(src, dst):
    """The client's bytes, as they come."""
    try:
        while data := src.recv(65536):
            dst.sendall(data)
        dst.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def count(tail, data):
    """How many events begin in data; tail: the last bytes of what came before, since a mark may be cut in two."""
    both = tail + data
    return both.count(b"data: {"), both[-6:]


def answers(src, dst):
    """The server's bytes, until the event at which it dies."""
    global seen
    tail = b""
    try:
        while data := src.recv(65536):
            n, tail = count(tail, data)
            with lock:
                seen += n
                if seen >= wanted:
                    os.kill(pid, signal.SIGKILL)
                    os._exit(0)
            dst.sendall(data)
    except OSError:
        pass
    dst.close()
    src.close()


def main():
    hall = socket.create_server(("127.0.0.1", listen_port), backlog=64)
    print(f"listening on {listen_port}", flush=True)
    while True:
        client, _ = hall.accept()
        try:
            server = socket.create_connection(("127.0.0.1", server_port))
        except OSError:
            client.close()
            continue
        threading.Thread(target=pump, args=(client, server), daemon=True).start()
        threading.Thread(target=answers, args=(server, client), daemon=True).start()


main()
