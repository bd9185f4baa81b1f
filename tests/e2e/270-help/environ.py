"""environ.py ROOT BIN - is every TD_* variable that the sources read in some help?

A variable is read where its name stands in a string of its own ("TD_LOG"; "TD_TAP_" is the beginning of many). Those that only our own
programs and tests set are named below.
SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import subprocess
import sys

INTERNAL = {
    "TD_ERROR_FD": "gate sets it for the programs that it starts",
    "TD_DRIVER": "the driver sets it: how the programs are called",
}
FOLDERS = ["common", "format", "wire", "model", "kernels", "recorder", "replayer", "differ", "report", "gate", "fixture", "demo/server", "driver"]
NAMES = re.compile(r'"(TD_[A-Z0-9_]*[A-Z0-9])(?:=[^"]*)?"|environ(?:\.get\(|\[)["\'](TD_[A-Z0-9_]+)["\']')


def read_by_sources(root):
    found = {}
    for folder in FOLDERS:
        for top, _, files in os.walk(os.path.join(root, folder)):
            for name in files:
                if name.endswith((".c", ".h", ".cu", ".py")):
                    path = os.path.join(top, name)
                    for a, b in NAMES.findall(open(path).read()):
                        found.setdefault(a or b, os.path.relpath(path, root))
    return found


def main(root, bin_folder):
    helps = ""
    for program in "tapedeck", "record", "replay", "differ", "gate", "fixture", "demo-server":
        text = subprocess.run([f"{bin_folder}/{program}", "--help"], capture_output=True, text=True).stdout
        helps += text[text.index("\nenvironment:"):]
    listed = set(re.findall(r"\bTD_[A-Z0-9_]+\b", helps))
    found = read_by_sources(root)
    bad = 0
    for name, path in sorted(found.items()):
        if name not in listed and name not in INTERNAL:
            print(f"{path} reads {name}, which no help lists")
            bad += 1
    for name in sorted((listed | set(INTERNAL)) - set(found)):
        print(f"{name} is listed, and nothing reads it")
        bad += 1
    if "TD_LOG" not in found or "TD_TAP_DIR" not in found or len(found) < 12:
        print(f"too few were found: {sorted(found)}")
        bad += 1
    print("all variables are listed" if not bad else "not all variables are listed")
    return bad > 0


sys.exit(main(sys.argv[1], sys.argv[2]))
