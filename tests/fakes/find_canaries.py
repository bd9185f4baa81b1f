#!/usr/bin/env python3
"""find_canaries.py - print the canaries (canary_server.py) that are left in fixtures and files.

usage: find_canaries.py KINDS PATH...   KINDS: of "s", "t", "k"; PATH: a fixture, another folder or a file
A fixture is read by tests/read_fixture.py: the bytes of each direction of a stream are joined, JSON
lines are decoded. Besides the raw bytes of all files are searched, and every text in other spellings:
escapes of JSON, URLs and HTML, base64, hexadecimal digits, upper case.
SPDX-License-Identifier: Apache-2.0
"""
import base64
import collections
import html
import json
import os
import re
import subprocess
import sys
import urllib.parse

KINDS = sys.argv[1].encode()
WORD = re.compile(rb"canary-([a-z])[- ][a-z0-9]+|\b7700[0-9]{2}\b|\b8800[0-9]{2}\b")
BASE64 = re.compile(rb"[A-Za-z0-9+/]{16,}={0,2}")
URL_SAFE = bytes.maketrans(b"-_", b"+/")
HEX = re.compile(rb"(?:[0-9a-fA-F]{2}){8,}")
ESCAPE = re.compile(rb"\\+u([0-9a-fA-F]{4})|\\+x([0-9a-fA-F]{2})")
found = set()


def look(data, deep=True):
    data = data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")
    for m in WORD.finditer(data.lower()):
        kind = m[1] or (b"t" if m[0].startswith(b"7700") else b"s")
        if kind in KINDS:
            found.add(m[0])
    if not deep:
        return
    url = urllib.parse.unquote_to_bytes(data)
    for text in (url, urllib.parse.unquote_to_bytes(url), html.unescape(html.unescape(data.decode("latin-1"))),
                 ESCAPE.sub(lambda m: chr(int(m[1] or m[2], 16)).encode("utf-8", "replace"), data)):
        look(text, False)
    for word in BASE64.findall(data) + BASE64.findall(url) + BASE64.findall(data.translate(URL_SAFE)):
        for cut in range(4):
            part = word[cut:]
            try:
                look(base64.b64decode(part[:len(part) // 4 * 4], validate=True), False)
            except ValueError:
                pass
    for word in HEX.findall(data):
        look(bytes.fromhex(word.decode()), False)


def look_json(v):
    if isinstance(v, str):
        look(v)
    elif isinstance(v, dict):
        for k, x in v.items():
            look(k)
            look_json(x)
    elif isinstance(v, list):
        for x in v:
            look_json(x)
    elif isinstance(v, int) and not isinstance(v, bool):
        look(str(v), False)


def look_fixture(folder):
    reader = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "read_fixture.py")
    out = subprocess.run([sys.executable, reader, folder], capture_output=True)
    if out.returncode:
        sys.exit(f"{folder}: {out.stderr.decode()}")
    sides = collections.defaultdict(bytes)
    for line in out.stdout.splitlines():
        v = json.loads(line)
        if v.get("stream") == "wire":
            sides[v["record"]["n"], v["record"]["dir"]] += base64.b64decode(v["record"]["base64"])
        else:
            look_json(v)
    for data in sides.values():
        look(data)
    look_json(json.load(open(os.path.join(folder, "manifest.json"), encoding="utf-8")))
    return len(sides)


def main():
    sides = 0
    for path in sys.argv[2:]:
        for folder, _, names in os.walk(path) if os.path.isdir(path) else [(os.path.dirname(path), [], [os.path.basename(path)])]:
            if "wire.zst" in names:
                sides += look_fixture(folder)
            for name in names:
                with open(os.path.join(folder, name), "rb") as f:
                    data = f.read()
                look(data, len(data) < 1 << 20)
    if sides and sides < 6:
        sys.exit(f"only {sides} directions of streams were read")
    print("left:", *sorted(f.decode() for f in found) or ["nothing"])


main()
