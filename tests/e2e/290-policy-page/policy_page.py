"""policy_page.py - docs/policy.md names every key of a policy with its default, and no other key.

usage: policy_page.py PAGE DIFFER POLICY.def FIXTURE
DIFFER is asked: its report on FIXTURE holds the complete default policy, and it must accept each
JSON example of the page. The first example is the default policy. What does not fit is printed.
SPDX-License-Identifier: Apache-2.0
"""
import json
import re
import subprocess
import sys

page, differ, registry, fixture = sys.argv[1:]
text = open(page, encoding="utf-8").read()
troubles = []


def flat(policy):
    """{"speed.alpha": 0.05, ...}, without the name."""
    return {f"{section}.{key}": value for section, members in policy.items() if section != "name"
            for key, value in members.items()}


def of_the_page():
    """The rows of the tables under "### section"."""
    keys, section = {}, None
    for line in text.splitlines():
        if line.startswith("#"):
            section = line[4:].strip() if line.startswith("### ") else None
        row = re.match(r"\| `(\w+)` \| ([^|]+) \|", line)
        if row and section:
            if f"{section}.{row[1]}" in keys:
                troubles.append(f"{section}.{row[1]} has two rows")
            keys[f"{section}.{row[1]}"] = json.loads(row[2])
    return keys


def of_the_registry():
    """The lines THRESHOLD(section, key, field, default, ...) and FLAG(section, key, field, ...)."""
    lines = open(registry, encoding="utf-8").read()
    keys = {f"{section}.{key}": float(value) for section, key, value in
            re.findall(r"^THRESHOLD\((\w+), (\w+), \w+, ([-0-9.e]+),", lines, re.M)}
    return keys | {f"{section}.{key}": False for section, key in re.findall(r"^FLAG\((\w+), (\w+),", lines, re.M)}


def compare(where, found, wanted, subset=False):
    for key in sorted(set(found) | set(wanted)):
        if key not in found:
            troubles.append(f"{where}: {key} is missing; its default is {json.dumps(wanted[key])}")
        elif key not in wanted and not subset:
            troubles.append(f"{where}: there is no key {key}")
        elif key in wanted and found[key] != wanted[key]:
            troubles.append(f"{where}: {key} is {json.dumps(found[key])}, its default is {json.dumps(wanted[key])}")


subprocess.run([differ, fixture, fixture, "--json", "report.json"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
default = flat(json.load(open("report.json", encoding="utf-8"))["policy"])
compare("the tables", of_the_page(), default)
compare("the tables, beside policy.def", of_the_page(), of_the_registry(), subset=True)

examples = re.findall(r"```json\n(.*?)```", text, re.S)
for example in examples:
    open("example.json", "w", encoding="utf-8").write(example)
    run = subprocess.run([differ, "--check-options", "--policy", "example.json"], capture_output=True, text=True)
    if run.returncode:
        troubles.append(f"differ refuses an example: {run.stderr.strip()}")
compare("the first example", flat(json.loads(examples[0])) if examples else {}, default)

print("\n".join(troubles) if troubles else "the page and the program agree")
