"""help.py BIN - every program's --help: lines, sections, and the name of the command.

SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import subprocess
import sys

BIN = sys.argv[1]
PROGRAMS = ["record", "replay", "differ", "gate", "fixture"]
bad = 0


def say(what):
    global bad
    bad += 1
    print(what)


def run(*words, driver=False):
    env = {k: v for k, v in os.environ.items() if k != "TD_DRIVER"}
    if driver:
        env["TD_DRIVER"] = "tapedeck"
    r = subprocess.run(list(words), capture_output=True, text=True, env=env)
    if r.returncode:
        say(f"{words}: exit {r.returncode}: {r.stderr}")
    return r.stdout


def sections(text):
    """The help's parts by their headings."""
    parts, name = {}, ""
    for line in text.splitlines():
        head = re.fullmatch(r"(options|commands|environment|examples):|usage: .*", line)
        if head:
            name = head[1] or "usage"
        parts.setdefault(name, []).append(line)
    return parts


def check(words, prefix):
    """words : of the command, ["fixture", "show"]; prefix : "tapedeck " when the driver calls it"""
    called = prefix + " ".join(words)
    if prefix:
        text = run(f"{BIN}/tapedeck", *words, "--help")
        by_help = run(f"{BIN}/tapedeck", "help", *words)
        if text != by_help:
            say(f"tapedeck help {' '.join(words)} is not {called} --help")
    else:
        text = run(f"{BIN}/{words[0]}", *words[1:], "--help")
    for line in text.splitlines():
        if len(line) > 100:
            say(f"{called} --help: {len(line)} columns: {line}")
        if re.search(r"\{(record|replay|differ|gate|fixture)\}", line):
            say(f"{called} --help: a name that was not written out: {line}")
    parts = sections(text)
    for name in ("usage", "environment", "examples"):
        if name not in parts:
            say(f"{called} --help has no section {name}")
    if not text.startswith(f"usage: {called} "):
        say(f"{called} --help begins with {text.splitlines()[0]!r}")
    for line in parts.get("examples", []):
        for command in re.findall(r"(?:^  |&& |\$\()(\w[\w-]*(?: \w+)?)", line):
            first = command.split()[0]
            if first in PROGRAMS and prefix or first == "tapedeck" and not called.startswith("tapedeck"):
                say(f"{called} --help: {command!r} is not what one calls here: {line}")
    if words[0] in PROGRAMS and not any(called in line for line in parts.get("examples", [])):
        say(f"{called} --help: no example calls {called}")
    return text


# One name with two meanings, known and meant: the operand may differ in these, and no more.
TWO_MEANINGS = {
    "json": "a report is written to FILE; the commands of fixture print JSON lines",
}


def options(text):
    """{name: (short name, whether it takes a value)} of a help."""
    found = {}
    for line in sections(text).get("options", []):
        m = re.match(r"  (?:-(\w), |    )--([a-z-]+)(\[?=?[ \[]?\S+)?(?:  |$)", line)
        if m:
            found[m[2]] = (m[1], bool(m[3]))
    return found


def check_names(helps):
    """An option has one short name, and takes a value, in all programs or in none; so has a short
    name one option."""
    by_name, by_short = {}, {}
    for called, text in helps.items():
        for name, (short, value) in options(text).items():
            first, was = by_name.setdefault(name, (called, (short, value)))
            if was[0] != short and name not in TWO_MEANINGS:
                say(f"--{name} is -{was[0]} in {first} and -{short} in {called}")
            if was[1] != value and name not in TWO_MEANINGS:
                say(f"--{name} takes {'a' if was[1] else 'no'} value in {first}, not so in {called}")
            if short and by_short.setdefault(short, name) != name:
                say(f"-{short} is --{by_short[short]} and, in {called}, --{name}")
    for name in "out", "server", "only", "quiet", "color":
        if name not in by_name:
            say(f"--{name} was not found in any help")


def main():
    commands = [[p] for p in PROGRAMS]
    listed = sections(run(f"{BIN}/fixture", "--help"))["commands"][1:]
    commands += [["fixture", line.split()[0]] for line in listed if re.match(r"  \w", line)]
    for words in commands:
        check(words, "tapedeck ")
    check_names({" ".join(words): check(words, "") for words in commands})
    check(["demo-server"], "")
    check(["tapedeck"], "")
    seen = " ".join(" ".join(words) for words in commands)
    if "fixture show" not in seen or "fixture extract" not in seen:
        say(f"the commands of fixture were not found: {seen}")
    print(f"{'all' if not bad else 'not all'} helps hold")


main()
sys.exit(bad > 0)
