#!/usr/bin/env python3
"""scripts.py ROOT PAGE... - scripts that the pages name by their path are there, and can be run as they are typed.
SPDX-License-Identifier: Apache-2.0"""
import os
import re
import sys

NAMED = re.compile(r"(\bbash )?(?<![\w/.-])((?:bench|demo|tests)/[\w/-]+\.(?:sh|py))\b")
root, found = sys.argv[1], set()
for page in sys.argv[2:]:
    for by_bash, path in NAMED.findall(open(page, encoding="utf-8").read()):
        at = os.path.join(root, path)
        if not os.path.exists(at):
            found.add(f"{os.path.basename(page)}: {path} is not there")
        elif path.endswith(".sh") and not by_bash and not os.access(at, os.X_OK):
            found.add(f"{os.path.basename(page)}: {path} is not executable")
print("\n".join(sorted(found)) or "all scripts can be run")
