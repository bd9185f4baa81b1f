"""power.py - cut the power at any moment of a program, by what it had synced.
SPDX-License-Identifier: Apache-2.0

    power.py [EVERY]

lib_disk.so logs each change that a program makes below a folder. For each moment (each so-manieth with
EVERY) the folder is built again as a disk may hold it after a power cut, in three ways: only what was
synced; what was synced, and the names (created, renamed, removed) at once; and all data, but only the
names that were synced. A file's data are synced by fsync of the file, names by fsync of the folder.
Then:
  record ended with 0 : the fixture verifies as complete
  before              : `fixture repair` makes a fixture that verifies, or there was nothing yet;
                        a fixture with a manifest that says complete verifies without a repair
  repair              : as `record`, and once it has said that it is done, its result is there
  pack                : what has the pack's name is a whole pack
Prints the number of cases; exit 1 when one fails. BIN and O are set as by tests/run.sh.
"""
import json, os, shutil, signal, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN, O = os.environ["BIN"], os.environ["O"]
cases = failures = 0


class Disk:
    """Files by number, with their data now and when they were synced; names now and when synced."""

    def __init__(self, folder, empty=False):
        self.folder = folder
        self.now, self.safe, self.files = {}, {}, []
        for name in sorted([] if empty else os.listdir(folder)):
            with open(os.path.join(folder, name), "rb") as f:
                data = f.read()
            self.files.append([bytearray(data), bytearray(data)])
            self.now[name] = self.safe[name] = len(self.files) - 1

    def name(self, path):
        return os.path.relpath(path, self.folder)

    def apply(self, what, args, data):
        name = self.name(args[0])
        if what == "create":
            self.files.append([bytearray(), bytearray()])
            self.now[name] = len(self.files) - 1
        elif what == "rename":
            self.now[self.name(args[1])] = self.now.pop(name)
        elif what == "unlink":
            self.now.pop(name, None)
        elif what == "sync" and name == ".":
            self.safe = dict(self.now)
        elif name in self.now:
            f = self.files[self.now[name]]
            if what == "write":
                at = int(args[1])
                if at > len(f[0]):
                    f[0].extend(bytes(at - len(f[0])))
                f[0][at:at + len(data)] = data
            elif what == "truncate":
                del f[0][int(args[1]):]
            elif what == "sync":
                f[1] = bytearray(f[0])

    def build(self, to, names_at_once, data_at_once):
        shutil.rmtree(to, True)
        os.makedirs(to)
        for name, i in (self.now if names_at_once else self.safe).items():
            with open(os.path.join(to, name), "wb") as f:
                f.write(self.files[i][0 if data_at_once else 1])


def events(log):
    with open(log, "rb") as f:
        while line := f.readline():
            what, *args = line.decode().split()
            yield what, args, f.read(int(args[2])) if what == "write" else b""


def run(argv, under=None, log=None, **more):
    e = dict(os.environ)
    if under:
        e.update(LD_PRELOAD=O + "/tests/helpers/lib_disk.so", DISK_UNDER=under, DISK_LOG=log)
    p = subprocess.run(argv, env=e, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, **more)
    return p.returncode, p.stdout.decode(errors="replace")


def fail(what):
    global failures
    failures += 1
    print("FAIL", what)


WAYS = {"synced": (False, False), "names at once": (True, False), "data at once": (False, True)}


def check_fixture(what, folder, finished):
    manifest = folder + "/manifest.json"
    rc, out = run([BIN + "/fixture", "verify", folder])
    if finished and rc:
        return fail("%s: had ended, but: %s" % (what, out))
    if os.path.exists(manifest) and rc:
        try:
            with open(manifest) as f:
                state = json.load(f)["state"]
        except ValueError:
            state = "damaged"
        if state in ("complete", "damaged"):
            fail("%s: the manifest says %s, but: %s" % (what, state, out))
    if rc:
        code, said = run([BIN + "/fixture", "repair", folder])
        rc, out = run([BIN + "/fixture", "verify", folder])
        if code or rc:
            fail("%s: repair: exit %d: %s%s" % (what, code, said, out))


def check_pack(what, folder, finished):
    pack, to = folder + "/out.tdz", folder + "/unpacked"
    if not os.path.exists(pack):
        return fail("%s: had ended, and there is no pack" % what) if finished else None
    rc, out = run([BIN + "/fixture", "unpack", pack, "-o", to])
    if not rc:
        rc, out = run([BIN + "/fixture", "verify", to])
    if rc:
        fail("%s: %s" % (what, out))


def cut(what, folder, log, before, every, check):
    """Each moment of the log, and the end."""
    global cases
    disk, to, all_events = before, folder + ".cut", list(events(log))
    for i, event in enumerate(all_events + [None]):
        if i % every == 0 or event is None:
            for way, (names, data) in WAYS.items():
                cases += 1
                disk.build(to, names, data)
                check("%s, before change %d of %d, %s" % (what, i, len(all_events), way), to, event is None)
        if event:
            disk.apply(*event)


def main():
    every = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    with tempfile.TemporaryDirectory(prefix="td-power-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as work:
        work = os.path.realpath(work)
        model = os.environ.get("CHECKPOINTS", ROOT + "/demo/checkpoints") + "/gptq4"
        suite = work + "/suite.jsonl"
        with open(suite, "w") as f:
            f.write('{"id":"one","category":"short","prompt":"In the beginning","max_tokens":12}\n')
        server = subprocess.Popen([BIN + "/demo-server", "--model", model, "--served-model-name", "demo", "--port", "0"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            url = next(l for l in server.stdout if l.startswith("listening on ")).split("//")[1].strip()
            fx, log = work + "/fx", work + "/fx.log"
            rc, out = run([BIN + "/record", "--server", url, "-o", fx, "--suite", suite, "--repeat", "3",
                           "--gemms", "off"], fx, log)
            if rc:
                fail("record: exit %d: %s" % (rc, out))
            cut("record", fx, log, Disk(fx, True), every, check_fixture)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()
        for source in ("v1-synthetic", "v1-vllm-gptq4"):
            fx, log = work + "/repair", work + "/repair.log"
            shutil.rmtree(fx, True)
            shutil.copytree(ROOT + "/fixtures/golden/" + source, fx)
            os.unlink(fx + "/manifest.json")
            for name in ("wire.zst", "steps.jsonl.zst"):
                with open(os.path.join(fx, name), "ab") as f:
                    f.write(b"torn")
            with open(fx + "/blobs.pack", "r+b") as f:
                f.truncate(os.path.getsize(fx + "/blobs.pack") - 30)
            before = Disk(fx)
            if os.path.exists(log):
                os.unlink(log)
            rc, out = run([BIN + "/fixture", "repair", fx], fx, log)
            if rc:
                fail("repair: exit %d: %s" % (rc, out))
            cut("repair " + source, fx, log, before, every, check_fixture)
        folder, log = work + "/pack", work + "/pack.log"
        os.mkdir(folder)
        rc, out = run([BIN + "/fixture", "pack", ROOT + "/fixtures/golden/v1-vllm-gptq4", "-o", folder + "/out.tdz"],
                      folder, log)
        if rc:
            fail("pack: exit %d: %s" % (rc, out))
        cut("pack", folder, log, Disk(folder, True), every, check_pack)
    print("power: %d cases, %d failed" % (cases, failures))
    return failures > 0


sys.exit(main())
