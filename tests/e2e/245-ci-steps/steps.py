"""steps.py PAGE FOLDER - write the shell steps of docs/ci.md as scripts: github, gitlab, hook.

The YAML is read by its indentation, as far as this page uses it: `run: |` blocks and the list
behind `script:`.
SPDX-License-Identifier: Apache-2.0
"""
import re
import sys

page, folder = open(sys.argv[1]).read(), sys.argv[2]
blocks = re.findall(r"^```(yaml|sh)\n(.*?)^```", page, re.M | re.S)


def indent(line):
    return len(line) - len(line.lstrip())


def variables(text, key):
    out = []
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if line.strip() == key + ":":
            for more in lines[i + 1:]:
                if indent(more) <= indent(line):
                    break
                name, value = more.strip().split(": ", 1)
                out.append(f"export {name}='{value}'")
    return out


def run_blocks(text):
    lines, out = text.splitlines(), []
    for i, line in enumerate(lines):
        if line.strip() == "run: |":
            block = []
            for more in lines[i + 1:]:
                if more.strip() and indent(more) <= indent(line):
                    break
                block.append(more)
            cut = min(indent(b) for b in block if b.strip())
            out.append("\n".join(b[cut:] for b in block))
    return out


def script_list(text):
    lines, out = text.splitlines(), []
    at = next(i for i, line in enumerate(lines) if line.strip() == "script:")
    for line in lines[at + 1:]:
        if not line.strip().startswith("- "):
            break
        out.append(line.strip()[2:])
    return out


yaml = [text for kind, text in blocks if kind == "yaml"]
shell = [text for kind, text in blocks if kind == "sh"]
assert len(yaml) == 2 and len(shell) == 1, (len(yaml), len(shell))
steps = {"github": variables(yaml[0], "env") + run_blocks(yaml[0]),
         "gitlab": variables(yaml[1], "variables") + script_list(yaml[1])}
assert [len(steps[k]) for k in ("github", "gitlab")] == [4, 5], steps
for name, lines in steps.items():
    open(f"{folder}/{name}", "w").write("#!/bin/bash\nset -e\n" + "\n".join(lines) + "\n")
open(f"{folder}/hook", "w").write(shell[0])
