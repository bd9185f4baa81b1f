"""whole.py - say of reports whether they are whole, and what verdict they hold.
usage: whole.py FILE...
SPDX-License-Identifier: Apache-2.0
"""
import csv
import io
import json
import os
import sys
import xml.etree.ElementTree as xml

for path in sys.argv[1:]:
    text = open(path, encoding="utf-8").read() if os.path.exists(path) else None
    if not text:
        print("no file" if text is None else "empty", end=" ")
    elif text.startswith("{"):
        print("json", json.loads(text)["verdict"], end=" ")
    elif text.startswith("<?xml"):
        xml.fromstring(text)
        print("junit", "broken" if "broken" in text else "regressed", end=" ")
    elif text.startswith("row,fixture,"):
        rows = list(csv.DictReader(io.StringIO(text)))
        print("csv", "whole" if text.endswith("\n") else "cut off", *sorted({r["verdict"] for r in rows if r["row"] == "run"}), end=" ")
    else:
        print("markdown", "broken" if "verdict: broken" in text else "regressed", end=" ")
