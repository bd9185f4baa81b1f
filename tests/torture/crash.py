"""crash.py - end a program at each of its changes to the disk, and compare what comes of it.
SPDX-License-Identifier: Apache-2.0

    crash.py repair [EVERY]   `fixture repair` of damaged fixtures: killed at each change, also amid each
                              write, then repaired again: the same files and counts as without a kill
    crash.py write [EVERY]    `fixture pack`, `merge`, `extract`, `replay`: killed at each change; the
                              inputs are untouched, no half of a result passes for a whole one, and a
                              second run makes the same

EVERY: take each so-manieth change only (1). Prints the number of cases; exit 1 when one fails.
BIN and O are set as by tests/run.sh.
"""
import json, os, shutil, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN, O = os.environ["BIN"], os.environ["O"]
LIB = O + "/tests/helpers/lib_disk.so"
STREAMS = ["wire.zst", "exchanges.jsonl.zst", "steps.jsonl.zst", "ops.jsonl.zst", "ledger.jsonl.zst"]
FILES = STREAMS + ["blobs.pack"]
cases = failures = 0


def fail(what):
    global failures
    failures += 1
    print("FAIL", what)


def run(argv, under=None, cwd=None, **env):
    e = dict(os.environ, **env)
    if under:
        e.update(LD_PRELOAD=LIB, DISK_UNDER=os.path.realpath(under))
    p = subprocess.run(argv, env=e, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    return p.returncode, p.stdout.decode(errors="replace")


def changes(argv, under, cwd=None):
    """The number of changes of a run that is not killed."""
    with tempfile.NamedTemporaryFile() as f:
        rc, out = run(argv, under, cwd, DISK_COUNT=f.name)
        return rc, out, int(f.read() or 0)


# ---- what a fixture is -------------------------------------------------------------------------------

def read(path):
    with open(path, "rb") as f:
        return f.read()


def state(folder):
    """All files, and the manifest without what differs from run to run."""
    out = {}
    for name in sorted(os.listdir(folder)):
        out[name] = read(os.path.join(folder, name))
    if "manifest.json" in out:
        m = json.loads(out["manifest.json"])
        m.pop("id"), m.get("repaired", {}).pop("wall_ns", None)
        if "clock" in m and m["tool"] == "repair":
            m.pop("clock")
        out["manifest.json"] = m
    return out


def differences(a, b):
    names = [n for n in sorted(set(a) | set(b)) if a.get(n) != b.get(n)]
    if names == ["manifest.json"]:
        x, y = a["manifest.json"], b["manifest.json"]
        return ["manifest.json: " + k for k in sorted(set(x) | set(y)) if x.get(k) != y.get(k)]
    return names


# ---- damage ------------------------------------------------------------------------------------------

def edit(path, change):
    data = bytearray(read(path))
    data = change(data)
    with open(path, "wb") as f:
        f.write(data)


def flip(at):
    def change(d):
        d[int(len(d) * at)] ^= 0x55
        return d
    return change


def tear(d):
    return d + d[:40] if d else d


def killed(f):
    os.unlink(f + "/manifest.json")
    for s in STREAMS:
        edit(f + "/" + s, tear)
    edit(f + "/blobs.pack", lambda d: d[:-30] + d[:100])


def no_steps(f):
    os.unlink(f + "/manifest.json")
    edit(f + "/steps.jsonl.zst", lambda d: d[:0])


def bad_exchanges(f):
    edit(f + "/exchanges.jsonl.zst", flip(0.6))


def bad_frames(f):
    killed(f)
    for s in ("exchanges.jsonl.zst", "ops.jsonl.zst"):
        edit(f + "/" + s, flip(0.5))


def bad_pack(f):
    edit(f + "/blobs.pack", flip(0.3))


def failed(f):
    m = json.loads(read(f + "/manifest.json"))
    m["state"], m["failure"] = "failed", "no space left"
    with open(f + "/manifest.json", "w") as out:
        json.dump(m, out)
    os.unlink(f + "/steps.jsonl.zst")
    edit(f + "/blobs.pack", lambda d: d[:len(d) * 2 // 3])


def no_files(f):
    for s in ("wire.zst", "ledger.jsonl.zst", "blobs.pack"):
        os.unlink(f + "/" + s)


def bad_manifest(f):
    edit(f + "/manifest.json", lambda d: d[:len(d) // 2])


def foreign(f):
    for s in ("wire.zst", "ops.jsonl.zst", "manifest.json"):
        edit(f + "/" + s, lambda d: bytes(len(d)))


DAMAGES = [killed, no_steps, bad_exchanges, bad_frames, bad_pack, failed, no_files, bad_manifest, foreign]


def crash_repair(work, every):
    global cases
    for source in ("v1-synthetic", "v1-vllm-gptq4"):
        for damage in DAMAGES:
            name = "%s %s" % (source, damage.__name__)
            damaged, f = work + "/damaged", work + "/f"
            shutil.rmtree(damaged, True)
            shutil.copytree(ROOT + "/fixtures/golden/" + source, damaged)
            damage(damaged)

            def fresh():
                shutil.rmtree(f, True)
                shutil.copytree(damaged, f)

            fresh()
            repair = [BIN + "/fixture", "repair", f]
            rc, out, n = changes(repair, f)
            want = state(f)
            sound = run([BIN + "/fixture", "verify", f])
            if rc:
                fail("%s: repair: exit %d: %s" % (name, rc, out))
                continue
            if {n for n in want if not n.endswith(".aside")} != set(FILES + ["manifest.json"]):
                fail("%s: files: %s" % (name, sorted(want)))
            for i in range(1, n + 1, every):
                for half in ("", "h"):
                    cases += 1
                    fresh()
                    rc, out = run(repair, f, DISK_KILL_AT="%d%s" % (i, half))
                    if rc != -9:
                        fail("%s: change %d%s: not killed: exit %d: %s" % (name, i, half, rc, out))
                    rc, out = run(repair)
                    got = differences(want, state(f))
                    if rc or got or run([BIN + "/fixture", "verify", f]) != sound:
                        fail("%s: change %d%s of %d: exit %d, %s\n%s" % (name, i, half, n, rc, got, out))


# ---- programs that write something new -----------------------------------------------------------------

def crash_write(work, every):
    global cases
    one, two = work + "/one", work + "/two"
    ops = [O + "/tests/helpers/make_ops", work + "/source", "steps=1"]
    run(ops)
    for out, shard in ((one, "1/2"), (two, "2/2")):
        rc, text = run([BIN + "/replay", work + "/source", "--provider", "ref", "--shard", shard, "-o", out])
        if rc:
            fail("replay of a shard: exit %d: %s" % (rc, text))
    fixture, source = BIN + "/fixture", work + "/source"
    programs = {
        "pack": ([fixture, "pack", source, "-o"], "out.tdz"),
        "unpack": ([fixture, "unpack", work + "/source.tdz", "-o"], "out"),
        "merge": ([fixture, "merge", one, two, "-o"], "out"),
        "extract": ([fixture, "extract", source, "-o"], "out"),
        "replay": ([BIN + "/replay", source, "--provider", "ref", "-o"], "out"),
    }
    run([fixture, "pack", source, "-o", work + "/source.tdz"])
    before = state(source)
    for name, (argv, result) in programs.items():
        folder = work + "/" + name
        os.mkdir(folder)
        out = folder + "/" + result
        argv = argv + [out]
        rc, text, n = changes(argv, folder)
        if rc or run([fixture, "verify", out])[0]:
            fail("%s: exit %d: %s" % (name, rc, text))
            continue
        for i in range(1, n + 1, every):
            for half in ("", "h"):
                cases += 1
                shutil.rmtree(folder)
                os.mkdir(folder)
                rc, text = run(argv, folder, DISK_KILL_AT="%d%s" % (i, half))
                if rc != -9:
                    continue # the order of two threads differs from run to run
                # what is there is whole, or says that it is not
                if os.path.exists(out) and not run([fixture, "verify", out])[0]:
                    if os.path.isdir(out):
                        m = json.loads(read(out + "/manifest.json"))
                        if m["state"] not in ("complete", "failures_allowed"):
                            fail("%s: change %d%s: state %s" % (name, i, half, m["state"]))
                if os.path.isdir(out):
                    rc, text = run([fixture, "repair", out])
                    if rc or run([fixture, "verify", out])[0]:
                        fail("%s: change %d%s: repair: exit %d: %s" % (name, i, half, rc, text))
                if state(source) != before:
                    fail("%s: change %d%s: its input has changed" % (name, i, half))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="td-crash-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as top:
        what, every = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1
        {"repair": crash_repair, "write": crash_write}[what](top, every)
    print("%s: %d cases, %d failed" % (what, cases, failures))
    sys.exit(failures > 0)
