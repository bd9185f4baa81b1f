"""listener.py LOG - listen on a free loopback port, print it, and append to LOG whatever comes.
SPDX-License-Identifier: Apache-2.0
"""
import socket
import sys

log = open(sys.argv[1], "ab", buffering=0)
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
while True:
    c, _ = s.accept()
    c.settimeout(1)
    try:
        log.write(c.recv(65536) or b"(connected)")
    except OSError:
        log.write(b"(connected)")
    c.close()
