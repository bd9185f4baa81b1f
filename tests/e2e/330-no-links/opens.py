"""opens.py ROOT - the folders whose code reads and writes fixtures open no file by themselves.

SPDX-License-Identifier: Apache-2.0
td_fs_open_member() of common/fs.c opens a file of a fixture and refuses what is no regular file. The
places below open something else; each says what.
"""
import os
import re
import sys

FOLDERS = ["format", "fixture", "differ", "replayer", "model", "wire", "common"] # of common: fixture*.c
CALL = re.compile(r"\b(open|openat|open64|creat|fopen|fopen64|freopen|truncate|truncate64|td_fs_read|td_json_load)\s*\(")
OTHERS = {
    ("fixture/fixture_code.c", "fopen"): "a new file, with x",
    ("fixture/fixture_export.c", "fopen"): "a new file, with x",
    ("common/fixture_lock.c", "open"): "the lock; with O_NOFOLLOW and O_NONBLOCK, and it must be a regular file",
    ("differ/policy.c", "td_json_load"): "the user's policy",
    ("wire/capture/packets.c", "fopen"): "--pcap: a file of packets that the user names, or a FIFO of tcpdump",
    ("format/host_facts.c", "td_fs_read"): "/proc, /sys, /etc/machine-id",
    ("replayer/ref_cache_dir.c", "open"): "the folder of the user's cache; with O_NOFOLLOW and O_DIRECTORY",
    ("replayer/ref_cache_dir.c", "openat"): "a file of that cache; with O_NOFOLLOW, and it must be a regular file",
    ("wire/suite.c", "td_fs_read"): "the user's suite",
}
root, seen = sys.argv[1], set()
for folder in FOLDERS:
    for base, _, names in os.walk(f"{root}/{folder}"):
        for name in sorted(names):
            if not name.endswith(".c") or (folder == "common" and not name.startswith("fixture")):
                continue
            path = os.path.relpath(f"{base}/{name}", root)
            text = re.sub(r'/\*.*?\*/|"(\\.|[^"\\])*"', "", open(f"{root}/{path}", encoding="utf-8").read(), flags=re.S)
            for call in sorted({m[1] for m in CALL.finditer(text) if text[m.start() - 1] not in ".>"}):
                seen.add((path, call))
                if (path, call) not in OTHERS:
                    print(f"{path}: {call}() opens a file without td_fs_open_member() or td_fs_open_regular()")
if root != "tree":
    for gone in sorted(set(OTHERS) - seen):
        print(f"{gone[0]}: no longer calls {gone[1]}(): take it off the list")
