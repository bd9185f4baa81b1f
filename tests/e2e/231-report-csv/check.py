"""check.py FILE [COLUMN...] - is a report as CSV what a spreadsheet and pandas read? Prints the number of rows of each kind, and
the named columns of each row. SPDX-License-Identifier: Apache-2.0
"""
import collections
import csv
import re
import sys

# spreadsheets take a cell for a formula when its text begins so; a number may begin with a sign
FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]")
NUMBER = re.compile(r"-?[0-9.]+(e[-+][0-9]+)?\Z")


def fail(why):
    print("wrong:", why)
    sys.exit(1)


raw = open(sys.argv[1], "rb").read()
text = raw.decode("utf-8")
if not text.endswith("\r\n") or "\n" in text.replace("\r\n", "") or "\r" in text.replace("\r\n", ""):
    fail("lines do not end with CR LF, or a cell holds a line end")
if re.search(r"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f]", text):
    fail("a control character")
try:
    rows = list(csv.reader(text.split("\r\n")[:-1], strict=True))
except csv.Error as e:
    fail(e)
head, rows = rows[0], rows[1:]
if len(set(head)) != len(head):
    fail("a column twice")
for r in rows:
    if len(r) != len(head):
        fail(f"{len(r)} cells in a table of {len(head)} columns: {r[:5]}")
    for cell in r:
        if FORMULA.match(cell) and not NUMBER.match(cell):
            fail(f"a formula: {cell[:40]!r}")
        if len(cell) > 32767:
            fail("a cell that a spreadsheet cuts")
print(dict(collections.Counter(r[0] for r in rows)))
for r in rows:
    if len(sys.argv) > 2:
        print(" ", ", ".join(r[head.index(c)] for c in sys.argv[2:]))
