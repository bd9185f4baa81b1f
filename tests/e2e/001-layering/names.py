"""names.py ROOT [O] - does every public name mean one thing? Could one program link all others?

Tags and constants of enums, tags of structs and unions: a name that a header defines is defined in no other header, and one with a
prefix of ours (td_, tap_, client_) is defined in one file. A name that one .c file keeps for itself may occur in others.
With O, the folder of object files: no function or variable is defined in two of them, and `ld -r` links them all. Left out are what a
program alone has (main) and *_export.c, the functions that a server calls: a tap stands before them by defining them too.
SPDX-License-Identifier: Apache-2.0
"""
import collections
import os
import re
import subprocess
import sys

SKIPPED = ("tests", "bench", "demo/bugs", "demo/model", "docs", "build", "bin", "lib", "fixtures")
OURS = re.compile(r"(td|tap|client)_|(TD|TDK|TAP|CLIENT)_")


def sources(root):
    for top, folders, files in os.walk(root):
        top = os.path.relpath(top, root)
        folders[:] = [d for d in folders if not d.startswith(".") and os.path.normpath(os.path.join(top, d)) not in SKIPPED]
        yield from (os.path.normpath(os.path.join(top, f)) for f in sorted(files) if f.endswith((".c", ".h", ".cu")))


def bare(text):
    """C source without comments and strings."""
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', " ", text, flags=re.S)


def names_in(text):
    for kind, name in re.findall(r"\b(struct|union|enum)\s+(\w+)\s*\{", text):
        yield name, f"{kind} {name}"
    for body in re.findall(r"\benum\b\s*\w*\s*\{([^}]*)\}", text):
        for name in re.findall(r"(?:^|,)\s*(\w+)", re.sub(r"\([^()]*\)", "", body)):
            yield name, f"constant {name}"


def check_names(root, paths):
    found, bad = collections.defaultdict(lambda: collections.defaultdict(set)), 0
    for path in paths:
        for name, what in names_in(bare(open(os.path.join(root, path)).read())):
            found[name][path].add(what)
    for name, at in sorted(found.items()):
        headers = [p for p in at if p.endswith(".h")]
        if len(at) > 1 and (len(headers) > 1 or OURS.match(name)):
            bad += 1
            print(f"{name} is defined more than once: " + ", ".join(f"{' and '.join(sorted(at[p]))} in {p}" for p in sorted(at)))
    return bad


def check_symbols(objects, paths):
    at, defined, bad = [], collections.defaultdict(list), 0
    for path in paths:
        if not path.endswith(("_export.c", ".h")):
            at.append(os.path.join(objects, path + ".o" if path.endswith(".cu") else path[:-2] + ".o"))
    missing = [p for p in at if not os.path.exists(p)]
    if missing:
        print(f"{missing[0]} was not built: run this after `make`")
        return len(missing)
    for line in subprocess.run(["nm", "-A", "-g", "--defined-only", *at], check=True, capture_output=True, text=True).stdout.splitlines():
        path, _, kind, name = line.replace(":", " ", 1).split()
        if kind in "TBDRCSG" and name != "main":
            defined[name].append(path)
    for name, where in sorted(defined.items()):
        if len(where) > 1:
            bad += 1
            print(f"{name}() is defined more than once: {' '.join(os.path.relpath(p, objects) for p in sorted(where))}")
    together = [p for p in at if not p.endswith(("/main.o", "/child_main.o"))]
    link = subprocess.run(["ld", "-r", "-o", os.devnull, *together], capture_output=True, text=True)
    if link.returncode:
        bad += 1
        print("one program cannot link all others: " + (link.stderr.splitlines() or ["ld failed"])[0])
    return bad


def main(root, objects=None):
    paths = list(sources(root))
    bad = check_names(root, paths)
    if objects:
        bad += check_symbols(objects, paths)
    if not bad:
        print("names are unique")
    return bad > 0


sys.exit(main(*sys.argv[1:]))
