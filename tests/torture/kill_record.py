"""kill_record.py - kill `record` at random moments, and compare what the server had answered with what is
there after `fixture repair`.
SPDX-License-Identifier: Apache-2.0

    kill_record.py KILLS [SEED]

A proxy between record and the demo server notes when the last byte of each answer went to record. After
the kill the fixture is repaired and verified; the answers that it lacks tell how much time was lost.
Prints the count of kills, of answers, and the longest time lost. BIN is set as by tests/run.sh.
"""
import json, os, random, shutil, signal, socket, subprocess, sys, tempfile, threading, time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ["BIN"]
SUITE = """{"id":"one","category":"short","prompt":"In the beginning","max_tokens":6}
{"id":"two","category":"short","prompt":"And the light","max_tokens":40,"concurrency":4}
{"id":"three","category":"short","prompt":"Let there be","max_tokens":20,"concurrency":4}
{"id":"four","category":"short","prompt":"And there was","max_tokens":30,"concurrency":4}
{"id":"five","category":"short","prompt":"The evening","max_tokens":90,"concurrency":4}
"""


class Proxy:
    """Pass bytes on, and note when an answer's end ("[DONE]") has been passed on."""

    def __init__(self, port):
        self.to, self.done, self.lock = port, [], threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            a, _ = self.listener.accept()
            b = socket.create_connection(("127.0.0.1", self.to))
            for s in (a, b):
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.copy, args=(a, b, False), daemon=True).start()
            threading.Thread(target=self.copy, args=(b, a, True), daemon=True).start()

    def copy(self, a, b, answers):
        tail = b""
        try:
            while data := a.recv(65536):
                b.sendall(data)
                tail = tail[-5:] + data
                n = tail.count(b"[DONE]")
                if answers and n:
                    with self.lock:
                        self.done += [time.monotonic()] * n
                    tail = b""
        except OSError:
            pass
        for s in (a, b):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def start_server(work):
    model = os.environ.get("CHECKPOINTS", ROOT + "/demo/checkpoints") + "/gptq4"
    p = subprocess.Popen([BIN + "/demo-server", "--model", model, "--served-model-name", "demo", "--port", "0"],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in p.stdout:
        if line.startswith("listening on "):
            return p, int(line.strip().rsplit(":", 1)[1])
    sys.exit("the demo server did not start")


def readable(folder):
    """Answers that are there and complete."""
    p = subprocess.run(["zstd", "-dcq", folder + "/exchanges.jsonl.zst"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return sum(not json.loads(line).get("error") for line in p.stdout.splitlines())


def one(i, proxy, suite, work, rng):
    """Returns the seconds lost, the answers, or None and a sentence."""
    folder = work + "/fx"
    proxy.done.clear()
    p = subprocess.Popen([BIN + "/record", "--server", "127.0.0.1:%d" % proxy.port, "-o", folder, "--suite", suite,
                          "--repeat", "10000", "--gemms", "off"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not proxy.done and p.poll() is None:
        time.sleep(0.01)
    time.sleep(rng.uniform(0, 0.3) if i % 5 == 0 else rng.uniform(0, 3))
    if p.poll() is not None:
        return None, "record ended by itself with %d: %s" % (p.returncode, p.stderr.read())
    os.kill(p.pid, signal.SIGKILL)
    at = time.monotonic()
    p.wait()
    done = sorted(t for t in list(proxy.done) if t <= at)
    repair = subprocess.run([BIN + "/fixture", "repair", folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    verify = subprocess.run([BIN + "/fixture", "verify", folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    n = readable(folder)
    shutil.rmtree(folder)
    if repair.returncode or verify.returncode:
        return None, "repair %d, verify %d: %s%s" % (repair.returncode, verify.returncode,
                                                     repair.stdout.decode(), verify.stdout.decode())
    return at - done[n] if n < len(done) else 0.0, len(done)


def main():
    kills, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    rng, lost, answers, failures = random.Random(seed), [], 0, 0
    with tempfile.TemporaryDirectory(prefix="td-kill-") as work:
        suite = work + "/suite.jsonl"
        with open(suite, "w") as f:
            f.write(SUITE)
        server, port = start_server(work)
        try:
            proxy = Proxy(port)
            for i in range(kills):
                seconds, what = one(i, proxy, suite, work, rng)
                if seconds is None:
                    failures += 1
                    print("FAIL kill %d (seed %d): %s" % (i, seed, what))
                else:
                    lost.append(seconds)
                    answers += what
            alive = server.poll() is None
        finally:
            server.kill()
    lost.sort()
    if not alive:
        failures += 1
        print("FAIL: the server has ended")
    if lost:
        print("lost: median %.2f s, longest %.2f s (%d answers in all, seed %d)"
              % (lost[len(lost) // 2], lost[-1], answers, seed))
    print("kill_record: %d cases, %d failed" % (kills, failures))
    return failures > 0


sys.exit(main())
