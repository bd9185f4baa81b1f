# edit_fixture.py - change a fixture as another version, or another course of events, would have
# written it: its manifest, or the records of a stream. For the scripts of e2e cases.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess


def edit(fixture, change):
    """Have change(manifest) change the manifest. Returns the fixture."""
    path = f"{fixture}/manifest.json"
    m = json.load(open(path))
    change(m)
    json.dump(m, open(path, "w"))
    return fixture


def records(fixture, stream="exchanges"):
    """The records of a stream."""
    lines = subprocess.run(["zstd", "-dcq", f"{fixture}/{stream}.jsonl.zst"], stdout=subprocess.PIPE, check=True).stdout
    return [json.loads(line) for line in lines.splitlines()]


def rewrite(fixture, change, stream="exchanges"):
    """Replace each record of a stream by those that change(record) returns. Returns the fixture, whose
    manifest no longer lists the file."""
    name = f"{stream}.jsonl.zst"
    new = [r for old in records(fixture, stream) for r in change(old)]
    data = "".join(json.dumps(r) + "\n" for r in new).encode()
    subprocess.run([os.environ["O"] + "/tests/helpers/write_stream", fixture, name], input=data, check=True)
    return edit(fixture, lambda m: m["files"].pop(name, None)) # a file that is not listed is not checked


def answers(change):
    """A change for rewrite(): change(record) of each timed answer, in place; the others stay."""
    def each(r):
        if r["phase"] == "timed":
            change(r)
        return [r]
    return each
