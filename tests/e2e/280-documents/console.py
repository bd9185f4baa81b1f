"""console.py [--instead 'COMMAND=OTHER'] DOCUMENT... - run the commands that a document shows, and compare what they print.

A document is Markdown. It is tested by its fenced blocks of the language "console":

    $ command           run by bash; all blocks of a document share one shell, which starts in the working directory
    what it prints      stdout and stderr, as on a terminal
    ...                 any number of lines
    some ... text       any text
    x speed ...         any number of lines: a verdict of speed is a timing, and a busy machine may give another

Lines end where they end; runs of spaces count as one. Times, sizes and speeds (numbers with a unit), temporary folders and ports differ from run to run, and
are not compared. In a block below the line "<!-- figures differ from run to run -->" no number is compared.

Every other block must say why it is not run, in the line above it: "<!-- not run: why -->". A block of the language
"text" shows a file or an output, and holds no command. The script fails when a block says nothing, when a command prints something else, and when a
document has no command at all.
The ports 8000 and 8001 of a document are replaced by free ones. --instead runs OTHER where the document says COMMAND.
SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading

UNITS = r"(?:ns|us|µs|ms|s|min|%|x|[KMG]i?B|tokens/s|tok/s|MHz)"
TIMEOUT_S = 300


def blocks(path):
    """The fenced blocks of a document: (line number, language, the comment above it, lines)."""
    comment, block = "", None
    with open(path, encoding="utf8") as f:
        for number, line in enumerate(f.read().split("\n"), 1):
            if block is None and line.startswith("```"):
                block = (number, line[3:].strip(), comment, [])
            elif block is not None and line.startswith("```"):
                yield block
                block, comment = None, ""
            elif block is not None:
                block[3].append(line)
            elif line.strip():
                comment = line.strip() if line.startswith("<!--") else ""
    if block is not None:
        raise SystemExit(f"{path}:{block[0]}: the block does not end")


def commands(lines):
    """Split a block: [(command, [lines that it prints])]."""
    got = []
    for line in lines:
        if line.startswith("$ "):
            got.append([line[2:], []])
        elif got and not got[-1][1] and got[-1][0].endswith("\\"):
            got[-1][0] += "\n" + line
        elif got:
            got[-1][1].append(line)
        else:
            raise ValueError(f"\"{line}\" stands before the first command")
    return got


def steady(line, any_number):
    """The line without what differs from run to run."""
    line = re.sub(r"/tmp/[\w.-]+", "/tmp/X", line)
    line = re.sub(r"; speed: .*", "", line)
    line = re.sub(r"(127\.0\.0\.1|localhost):\d+", r"\1:PORT", line)
    if any_number:
        line = re.sub(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?", "N", line)
    else:
        line = re.sub(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)? ?" + UNITS + r"(?![\w])", "N unit", line)
    return re.sub(r"\s+", " ", line).strip()


def is_a_timing(line):
    """Is this the line of the speed lane in a report's WHY?"""
    return re.match(r"(WHY\s+|\s+)\S+ speed ", line) is not None


def as_pattern(expected, any_number):
    parts = [re.escape(p) for p in steady(expected, any_number).split("...")]
    return re.compile(r".*".join(parts) + r"\Z")


def agree(expected, printed, any_number):
    """Do the lines agree? Returns None, or the first expected line that was not found."""
    printed = [steady(p, any_number) for p in printed]
    at, skipping = 0, False
    for line in expected:
        if line.strip() == "..." or is_a_timing(line):
            skipping = True
            continue
        pattern = as_pattern(line, any_number)
        end = len(printed) if skipping else min(at + 1, len(printed))
        found = next((i for i in range(at, end) if pattern.match(printed[i])), None)
        if found is None:
            return line
        at, skipping = found + 1, False
    if not skipping and at < len(printed):
        return f"(nothing more, but it printed: {printed[at]})"
    return None


class Shell:
    """One bash, whose stdout and stderr are one stream."""

    def __init__(self, ports, instead):
        self.mark, self.ports, self.instead = "END" + secrets.token_hex(8), ports, instead
        self.p = subprocess.Popen(["bash", "--norc", "--noprofile"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)

    def run(self, command):
        """Run a command. Returns the lines that it printed; $? stays as the command left it."""
        command = self.instead.get(command, command)
        for port, free in self.ports.items():
            command = re.sub(rf"\b{port}\b", str(free), command)
        alarm = threading.Timer(TIMEOUT_S, os.killpg, (self.p.pid, signal.SIGKILL))
        alarm.start()
        self.p.stdin.write(f"{command}\n__rc=$?; printf '\\n%s\\n' {self.mark}; (exit $__rc)\n")
        self.p.stdin.flush()
        lines = []
        for line in self.p.stdout:
            if line.rstrip("\n") == self.mark:
                break
            lines.append(line.rstrip("\n"))
        else:
            lines.append(f"(the shell ended, or this took more than {TIMEOUT_S} s)")
        alarm.cancel()
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def end(self):
        """End the shell and what it started."""
        try:
            self.p.stdin.write("kill $(jobs -p) 2>/dev/null; wait\n")
            self.p.stdin.close()
            self.p.wait(timeout=60)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            os.killpg(self.p.pid, signal.SIGKILL)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def check(path, instead):
    """Run one document. Returns (commands run, blocks not run, complaints)."""
    shell = Shell({"8000": free_port(), "8001": free_port()}, instead)
    ran, left, wrong = 0, 0, 0
    for number, language, comment, lines in blocks(path):
        where = f"{os.path.basename(path)}:{number}"
        if language == "text" and not any(line.startswith("$ ") for line in lines):
            continue
        if comment.startswith("<!-- not run: "):
            left += 1
            continue
        if language != "console":
            print(f"{where}: the block is neither \"console\" nor marked \"<!-- not run: why -->\"")
            wrong += 1
            continue
        any_number = comment == "<!-- figures differ from run to run -->"
        for command, expected in commands(lines):
            printed = shell.run(command)
            ran += 1
            while expected and not expected[-1].strip():
                expected.pop()
            missing = agree(expected, printed, any_number)
            if missing is not None:
                print(f"{where}: $ {command}\n  not printed: {missing}\n  printed:")
                print("\n".join("    " + p for p in printed))
                wrong += 1
    shell.end()
    if ran == 0:
        print(f"{path}: no command was run")
        wrong += 1
    return ran, left, wrong


def main(arguments):
    instead, paths, wrong = {}, [], 0
    while arguments:
        word = arguments.pop(0)
        if word == "--instead":
            command, _, other = arguments.pop(0).partition("=")
            instead[command] = other
        else:
            paths.append(word)
    for path in paths:
        ran, left, bad = check(path, instead)
        print(f"{os.path.basename(path)}: {ran} commands run, {left} blocks not run here", file=sys.stderr)
        wrong += bad
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
