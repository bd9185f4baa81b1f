"""rings.py ROOT OBJECTS [FOLDER...] - do calls between files go one way?

Draws an arrow from a file to each file that it includes, and to each file that defines a function or variable that its object file
needs. A source and the header of its name count as one file. Two files may be tied together; a ring of three or more is refused, with
the arrows that make it. OBJECTS is the folder of the object files (`make` puts them into build/). FOLDER: look at these folders of
ROOT, not at those of Tapedeck.
SPDX-License-Identifier: Apache-2.0
"""
import collections
import os
import re
import subprocess
import sys

FOLDERS = ("common", "format", "wire", "model", "kernels", "recorder", "replayer", "differ", "report", "gate", "fixture", "demo/server")
LARGEST = 2


def sources(folders):
    for top in folders:
        for folder, _, names in os.walk(top):
            for name in sorted(names):
                if name.endswith((".c", ".h", ".cu")):
                    yield os.path.join(folder, name)


def unit(path):
    return os.path.splitext(path)[0]


def symbols(paths):
    """Of each object file the global names that it defines, and those that it needs; one nm for all."""
    found = {path: (set(), set()) for path in paths}
    for line in subprocess.run(["nm", "-A", *paths], capture_output=True, text=True, check=True).stdout.splitlines() if paths else ():
        path, rest = line.split(":", 1)
        kind, name = rest.split()[-2:]
        if kind == "U":
            found[path][1].add(name)
        elif kind.isupper():
            found[path][0].add(name)
    return found


def arrows(objects, folders):
    """unit -> unit -> what the first needs of the second."""
    files = list(sources(folders))
    known = set(files)
    out, owner, needs, built = collections.defaultdict(lambda: collections.defaultdict(set)), {}, {}, {}
    for f in files:
        for included in re.findall(r'^\s*#\s*include\s+"([^"]*)"', open(f).read(), re.M):
            there = included if os.path.exists(included) else os.path.normpath(os.path.join(os.path.dirname(f), included))
            if there in known and unit(there) != unit(f):
                out[unit(f)][unit(there)].add("#include")
        o = os.path.join(objects, f + ".o" if f.endswith(".cu") else unit(f) + ".o")
        if not f.endswith(".h") and os.path.exists(o):
            built[o] = unit(f)
    for o, (defined, needed) in symbols(list(built)).items():
        needs[built[o]] = needed
        owner.update((name, built[o]) for name in defined if name != "main")
    missing = [f for f in files if f.endswith(".c") and unit(f) not in needs]
    if missing:
        sys.exit(f"{len(missing)} sources have no object file in {objects}, {missing[0]} is one: build first")
    for f, names in needs.items():
        for name in names:
            if owner.get(name, f) != f:
                out[f][owner[name]].add(name)
    return out


def rings(graph):
    """Strongly connected components of more than one node (Tarjan, 1972)."""
    index, low, stack, found = {}, {}, [], []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in graph.get(v, ()):
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in stack:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            ring = stack[stack.index(v):]
            del stack[stack.index(v):]
            if len(ring) > 1:
                found.append(sorted(ring))

    for v in list(graph):
        if v not in index:
            visit(v)
    return found


def main(root, objects, folders):
    os.chdir(root)
    sys.setrecursionlimit(10000)
    graph = arrows(objects, folders)
    bad = [r for r in rings(graph) if len(r) > LARGEST]
    for ring in sorted(bad, key=len):
        print(f"{len(ring)} files call each other in a ring:")
        for a in ring:
            for b in sorted(set(graph[a]) & set(ring)):
                print(f"  {a} -> {b}: {', '.join(sorted(graph[a][b])[:6])}")
    if not bad:
        print("calls go one way")
    return len(bad) > 0


sys.exit(main(sys.argv[1], os.path.abspath(sys.argv[2]), sys.argv[3:] or FOLDERS))
