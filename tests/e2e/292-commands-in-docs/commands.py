"""commands.py - every option in the commands of our pages exists.

usage: commands.py BIN PAGE...
In code blocks a command's options must be those of its program's --help (of `fixture`, of its
command's), up to a "--". In the text an option in `code` must be one of any program's, or stand in
FOREIGN. What does not is printed; at last how many commands were looked at, at least.
SPDX-License-Identifier: Apache-2.0
"""
import re
import subprocess
import sys

PROGRAMS = "record replay gate differ fixture".split()
AT_LEAST = 20
# Options of other programs, and those that a page names because they are not there.
FOREIGN = set("""
--enforce-eager --env --linear-backend --moe-backend --tensor-parallel-size --max-model-len --gpu-memory-utilization
--enable-scale-out --enable-request-id-headers --enable-metrics --metrics --stream-output
--port --api-key --args --child --report-api-errors
--passive
""".split())
bin_dir, pages = sys.argv[1], sys.argv[2:]
options = {}


def options_of(*command):
    if command not in options:
        text = subprocess.run([f"{bin_dir}/{command[0]}", *command[1:], "--help"], capture_output=True, text=True).stdout
        options[command] = set(re.findall(r"(?<![\w-])(--?[a-zA-Z][\w-]*)", text.split("examples:")[0]))
    return options[command]


def commands(block):
    """(program, the rest of its command) of a code block."""
    block = re.sub(r"\\\n", " ", block)
    for line in block.splitlines():
        for part in re.split(r"&&|\|\||[;|&]|\$\(|\)|\]", re.sub(r"(^|\s)#.*", "", line)):
            found = re.match(r'\s*[\["$]*\s*(?:\w+=\S+\s+)*(?:tapedeck |(?:\S*/)?bin/)?(\w+)\s+(.*)', part)
            if found and found[1] in PROGRAMS:
                yield found[1], found[2]


count = 0
known = set(FOREIGN)
for program in PROGRAMS:
    known |= options_of(program)
for name in re.findall(r"^  (\w+) ", subprocess.run([f"{bin_dir}/fixture", "--help"], capture_output=True, text=True).stdout, re.M):
    known |= options_of("fixture", name)

for page in pages:
    text = open(page, encoding="utf-8").read()
    where = page.rsplit("/", 1)[-1]
    blocks = re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.M | re.S)
    for program, rest in (c for block in blocks for c in commands(block)):
        count += 1
        words = re.split(r"\s--(?:\s|$)", rest)[0].split()
        command = [program] + words[:1] if program == "fixture" and words and words[0].isalpha() else [program]
        for word in words:
            option = re.match(r"--?[a-zA-Z][\w-]*", word)
            if option and option[0] not in options_of(*command):
                print(f"{where}: {' '.join(command)} has no {option[0]}")
    for span in re.findall(r"`([^`\n]+)`", re.sub(r"^ *```\w*\n.*?^ *```", "", text, flags=re.M | re.S)):
        for option in re.findall(r"(?<![\w/-])--[a-z][\w-]*", span):
            if option not in known:
                print(f"{where}: no program has {option}")
print(f"at least {AT_LEAST} commands" if count >= AT_LEAST else f"only {count} commands")
