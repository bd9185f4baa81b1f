"""messages.py - every message that a page quotes still stands in the sources.

usage: messages.py PAGE TREE
A message is a line **`text`** of the page; `…` in it stands for anything. It must be a part of one
string literal of the tree's programs, in which each printf conversion is such a `…` too, and
{gate} stands for "tapedeck gate". What does not stand there is printed; at last how many there are
at least.
SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import sys

FOLDERS = "common differ fixture format gate kernels model recorder replayer report wire".split()
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"((?:\\.|[^"\\\n])*)"|\'(?:\\.|[^\'\\\n])+\'|PRI\w+|\s+|.', re.S)
CONVERSION = re.compile(r"%%|%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+)?)?(?:hh|h|ll|l|j|z|t|L)?[a-zA-Z]?")
PROGRAM = re.compile(r"\{(record|replay|differ|gate|fixture)\}")     # as common/invocation.h says
AT_LEAST = 30


def literals(source):
    """Neighbouring literals are one, whatever stands between them that the compiler drops."""
    text = None
    for token in TOKEN.finditer(source):
        if token[1] is not None:
            text = (text or "") + token[1]
        elif text is not None and token[0].startswith("PRI"):
            text += "d"
        elif text is not None and not token[0].isspace() and not token[0].startswith(("/*", "//")):
            yield text
            text = None
    if text is not None:
        yield text


def sentences(tree):
    for folder in FOLDERS:
        for here, _, files in os.walk(os.path.join(tree, folder)):
            for name in files:
                if name.endswith((".c", ".h", ".def", ".py")):
                    with open(os.path.join(here, name), encoding="utf-8") as f:
                        for text in literals(f.read()):
                            text = text.replace('\\"', '"').replace("\\n", "\n")
                            text = PROGRAM.sub(r"tapedeck \1", text)
                            yield CONVERSION.sub(lambda m: "%" if m[0] == "%%" else "…", text)


page, tree = sys.argv[1:]
messages = re.findall(r"^\*\*`(.+)`\*\*$", open(page, encoding="utf-8").read(), re.M)
known = list(sentences(tree))
missing = 0
for message in messages:
    pattern = re.compile(".*".join(re.escape(part) for part in message.split("…")), re.S)
    if sum(len(part) for part in message.split("…")) < 12:
        print(f"too short to say anything: {message}")
    elif not any(pattern.search(text) for text in known):
        missing += 1
        print(f"not in the sources: {message}")
print(f"at least {AT_LEAST} messages, {missing} of them unknown" if len(messages) >= AT_LEAST
      else f"only {len(messages)} messages")
