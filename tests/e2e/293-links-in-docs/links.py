"""links.py - every link between our pages leads to a file, and to a heading where it names one.

usage: links.py PAGE...
An anchor is made of a heading as GitHub makes it. What leads nowhere is printed; at last how many
links there are, at least. SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import sys

AT_LEAST = 20


def text_of(page):
    """Without code blocks, in which [x](y) is no link and # no heading."""
    return re.sub(r"^ *```.*?^ *```", "", open(page, encoding="utf-8").read(), flags=re.M | re.S)


def anchors(page):
    seen = {}
    for heading in re.findall(r"^#+ +(.+)$", text_of(page), re.M):
        name = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-")
        seen[name] = seen.get(name, -1) + 1
        yield f"{name}-{seen[name]}" if seen[name] else name


count = 0
for page in sys.argv[1:]:
    for target in re.findall(r"\[[^]]*\]\(([^)\s]+)\)", text_of(page)):
        if re.match(r"\w+:", target):
            continue
        count += 1
        path, _, anchor = target.partition("#")
        path = os.path.join(os.path.dirname(page), path) if path else page
        if not os.path.exists(path):
            print(f"{os.path.basename(page)}: {target}: no such file")
        elif anchor and anchor not in anchors(path):
            print(f"{os.path.basename(page)}: {target}: no such heading")
print(f"at least {AT_LEAST} links" if count >= AT_LEAST else f"only {count} links")
