"""check.py FAILURE|PASS|VERBOSE|BROKEN TEXT... - does a text report keep its limits?

No line is wider than 100 columns, no control character reaches the terminal, the last line is the
verdict; a failure has at most 25 lines, a pass 6. BROKEN: a run that compared nothing has one line,
which holds the whole cause.
SPDX-License-Identifier: Apache-2.0
"""
import sys
import unicodedata

LINES = {"FAILURE": 25, "PASS": 6, "VERBOSE": 10 ** 9, "BROKEN": 1}


def width(line):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def trouble(kind, text):
    lines = text.split("\n")
    if lines.pop() != "":
        yield "the last line does not end"
    if len(lines) > LINES[kind]:
        yield f"{len(lines)} lines"
    for n, line in enumerate(lines, 1):
        if kind != "BROKEN" and width(line) > 100:
            yield f"line {n} has {width(line)} columns: {line}"
        if any(unicodedata.category(c) == "Cc" for c in line):
            yield f"line {n} has a control character: {line!r}"
        if line != line.rstrip():
            yield f"line {n} ends in blanks: {line!r}"
    if not lines or not lines[-1].startswith(("verdict: ", "smoke: ")):
        yield "the last line is no verdict"


bad = 0
for path in sys.argv[2:]:
    for t in trouble(sys.argv[1], open(path, encoding="utf-8", newline="\n").read()):
        print(f"{path}: {t}"[:300])
        bad += 1
        break
print(f"{sys.argv[1]}: {len(sys.argv) - 2 - bad} of {len(sys.argv) - 2} keep the limits")
sys.exit(bad > 0)
