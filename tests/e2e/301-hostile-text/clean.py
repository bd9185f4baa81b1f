"""clean.py FILE... - complain about each output that holds a raw control character, or a line that a fixture forged.
SPDX-License-Identifier: Apache-2.0
"""
import re
import sys

seen = quoted = 0
for path in sys.argv[1:]:
    text = open(path, "rb").read().decode("utf8", "replace")
    if path.endswith(".csv"):
        text = text.replace("\r\n", "\n") # how CSV ends its lines
    bad = sorted({repr(c) for c in re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)})
    forged = re.findall(r"^(?:verdict: pass$|::error::).*", text, re.M)
    seen += 1
    quoted += "31m" in text
    if bad or forged:
        print(path, *bad, *forged[:1])
print(f"{seen} outputs, {'some' if quoted > 5 else 'too few'} of them quote the fixture")
