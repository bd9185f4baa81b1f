# copies.py - kill copies of a fixture at their last changes to the disk, repair and judge them; copy a
# damaged one. Called by cmd.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.environ["ROOT"] + "/tests")
import edit_fixture

BIN, LIB, O = (os.environ[k] for k in ("BIN", "LIB", "O"))


def run(argv, **env):
    p = subprocess.run(argv, env=dict(os.environ, **env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return p.returncode, p.stdout, p.stderr


def manifest(fixture):
    return json.load(open(f"{fixture}/manifest.json"))


def ops_of(m):
    return m["files"]["ops.jsonl.zst"]["records"]


def state(fixture, to):
    edit_fixture.edit(fixture, lambda m: m.update(state=to, plan={"timed": 0, "tapped": 0, "scores": 0}))


def kill(argv, at):
    """The manifest of what a copy leaves that is killed at its change `at`, and is repaired."""
    shutil.rmtree("out", True)
    rc, _, _ = run(argv, LD_PRELOAD=f"{O}/tests/helpers/lib_disk.so", DISK_UNDER=os.path.realpath("out"), DISK_KILL_AT=str(at))
    if rc == 0: # commits are a matter of time: this run had fewer changes
        return None
    assert rc == -9, rc
    rc, _, err = run([f"{BIN}/fixture", "repair", "out"])
    assert rc == 0, err
    return manifest("out")


def verdict():
    _, out, _ = run([f"{BIN}/gate", "out", "--provider", "cpu", "--lanes", "ops", "--max-ops", "8"])
    return out.splitlines()[-1].split()[1], " ".join(out.split())


def changes(argv):
    shutil.rmtree("out", True)
    run(argv, LD_PRELOAD=f"{O}/tests/helpers/lib_disk.so", DISK_UNDER=os.path.realpath("out"), DISK_COUNT="count")
    return int(open("count").read())


def killed(name, argv, judged=True):
    argv = [f"{BIN}/fixture", *argv, "-o", "out"]
    n = changes(argv)
    whole = ops_of(manifest("out"))
    planned = manifest("out")["plan"]["ops"]
    all_of_them = part = None
    for at in range(n - 2, 0, -3):
        m = kill(argv, at)
        if not m or m["state"] != "interrupted":
            continue
        assert m["plan"].get("ops") == planned, m["plan"]
        if ops_of(m) == planned and not all_of_them:
            all_of_them = verdict() if judged else True
        if 0 < ops_of(m) < planned:
            part = verdict() if judged else True
            said = f"holds {ops_of(m)} of {planned} planned ops that it was to hold"
            assert not judged or said in part[1], part
            break
    print(f"{name}: {whole} of {planned} ops; killed with all: {all_of_them[0] if judged else all_of_them}; with a part: {part[0] if judged else part}")


state("source", "complete")
killed("extract", ["extract", "source"])
run([f"{BIN}/fixture", "extract", "source", "--only", "down_proj", "--only", "gate_proj", "--per-group", "7", "-o", "cut"])
m = manifest("cut")
print(f"extract of some: {m['plan']['ops']} planned, {m['seen']['ops']} seen, {ops_of(m)} there")
killed("redact", ["redact", "source"])


# ---- copies of a damaged fixture ----

def damage(fixture):
    """Change a byte of the first blob."""
    path = f"{fixture}/blobs.pack"
    data = bytearray(open(path, "rb").read())
    data[80] ^= 0x55
    open(path, "wb").write(data)


def copied(name, argv):
    shutil.rmtree("out", True)
    rc, _, _ = run([f"{BIN}/fixture", *argv, "-o", "out"])
    m = manifest("out")
    print(f"{name} of damage: exit {rc}, {m['state']}: {m['seen']['causes']}")


state("small", "complete")
shards = []
for i in (1, 2):
    rc, _, err = run([f"{BIN}/replay", "small", "--provider", "cpu", "--shard", f"{i}/2", "-o", f"shard{i}"])
    assert rc == 0, err
    shards.append(f"shard{i}")
shutil.copytree("small", "bad")
damage("bad")
copied("extract", ["extract", "bad"])
copied("redact", ["redact", "bad"])
state("bad", "failures_allowed")
edit_fixture.edit("bad", lambda m: m.update(seen={"causes": ["3 of 50 timed requests failed"]}))
copied("redact with causes", ["redact", "bad"])
run([f"{BIN}/fixture", "merge", *shards, "-o", "merged"])
m = manifest("merged")
print(f"merge: {m['plan']['ops']} planned, {m['seen']['ops']} seen, {m['state']}")
edit_fixture.edit("shard1", lambda m: (m["plan"].pop("ops"), m["seen"].pop("ops")))
run([f"{BIN}/fixture", "merge", *shards, "-o", "merged2"])
m = manifest("merged2")
print(f"merge with a part that states none: {m['plan']['ops']} planned, {m['seen']['ops']} seen")
path = "shard2/ops.jsonl.zst"
data = bytearray(open(path, "rb").read())
data[len(data) // 2] ^= 0x55
open(path, "wb").write(data)
copied("merge", ["merge", *shards])
