"""kill_record.py - kill `record` at random moments, and compare what the server had answered with what is
there after `fixture repair`.
SPDX-License-Identifier: Apache-2.0

    kill_record.py KILLS [SEED]

Each fifth recording is one of the demo server with the tap and all GEMMs, through a proxy; the others are of
a scripted server in this process. LANES (4) recordings run at once, each with a server of its own. A kill
comes anywhere between the start of `record` and two or three seconds later, a fourth of them in the first
quarter of a second. What is left must be named by `verify` as not complete, be repaired, and then verify;
no file but the fixture's own may be left; each op must have its step; the servers must live on. The end of
the oldest complete answer that the repaired fixture lacks tells how much time was lost; it means little on a
busy machine, so the load stands beside it. The last line counts the kills. BIN and LIB are set as by
tests/run.sh.
"""
import collections, itertools, json, os, random, shutil, signal, socket, socketserver, subprocess, sys, tempfile, threading, time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ["BIN"]
LANES = int(os.environ.get("LANES", 4))
SUITE = "".join('{"id":"%s","category":"short","prompt":"%s","max_tokens":%d%s}\n' % row for row in (
    ("one", "In the beginning", 3, ""), ("two", "And the light", 9, ',"concurrency":4'),
    ("three", "Let there be", 5, ',"concurrency":4'), ("four", "The evening", 20, ',"concurrency":4')))
FILES = {"manifest.json", "wire.zst", "exchanges.jsonl.zst", "steps.jsonl.zst", "ops.jsonl.zst", "ledger.jsonl.zst", "blobs.pack", "writer.lock"}


class Scripted:
    """A server of a few lines. Each answer says its own number, so that what a fixture lacks is known exactly."""
    tapped = False

    def __init__(self):
        self.done, self.number, this = {}, itertools.count(), self

        class Handler(socketserver.StreamRequestHandler):
            disable_nagle_algorithm = True

            def reply(self, status, body):
                self.wfile.write(b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body))

            def handle(self):
                try:
                    while line := self.rfile.readline(65536).split():
                        length = 0
                        while (h := self.rfile.readline(65536).strip()):
                            if h.lower().startswith(b"content-length:"):
                                length = int(h[15:])
                        self.one(line, json.loads(self.rfile.read(length) or b"{}"))
                except OSError:
                    pass  # killed

            def one(self, line, body):
                if line[1] == b"/v1/models":
                    return self.reply(200, b'{"object":"list","data":[{"id":"fake","object":"model","owned_by":"someone"}]}')
                if not body.get("stream"):
                    return self.reply(404, b'{"detail":"Not Found"}')
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
                number, n = next(this.number), body.get("max_tokens", 4)
                for i in range(n):
                    self.event(json.dumps({"id": "c", "object": "text_completion", "choices": [
                        {"index": 0, "text": " n%d" % number if i == 0 else " w", "finish_reason": "length" if i + 1 == n else None}]}))
                    time.sleep(0.02)
                self.event("[DONE]")
                self.wfile.write(b"0\r\n\r\n")
                this.done[number] = time.monotonic()

            def event(self, text):
                self.wfile.write(b"%x\r\ndata: %s\n\n\r\n" % (len(text) + 8, text.encode()))

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads, request_queue_size = True, 64

            def handle_error(self, request, client):
                raise

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def lacking(self, exchanges, until):
        """When the oldest answer ended that is not among the exchanges."""
        there = {int(x["text"].split()[0][1:]) for x in exchanges if x.get("text", "").startswith(" n")}
        ends = {n: t for n, t in list(self.done.items()) if t <= until}
        return min((t for n, t in ends.items() if n not in there), default=until), len(ends)

    def forget(self):
        self.done.clear()

    def alive(self):
        return True

    def end(self):
        self.server.shutdown()


class Tapped:
    """The demo server with the tap, behind a proxy that notes when the end of an answer ("[DONE]") went to record."""
    tapped = True

    def __init__(self):
        model = os.environ.get("CHECKPOINTS", ROOT + "/demo/checkpoints") + "/gptq4"
        env = dict(line[7:].replace("'", "").split("=", 1) for line in
                   subprocess.run([BIN + "/record", "--tap-env"], stdout=subprocess.PIPE, text=True).stdout.splitlines())
        self.process = subprocess.Popen([BIN + "/demo-server", "--model", model, "--served-model-name", "demo", "--port", "0"], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, **env})
        self.to = 0
        for line in self.process.stdout:
            if line.startswith("listening on "):
                self.to = int(line.strip().rsplit(":", 1)[1])
                break
        if not self.to:
            sys.exit("the demo server did not start")
        self.done, self.lock = [], threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            a, _ = self.listener.accept()
            try:
                b = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                a.close()
                continue
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

    def lacking(self, exchanges, until):
        ends = sorted(t for t in list(self.done) if t <= until)
        n = len(exchanges)
        return ends[n] if n < len(ends) else until, len(ends)

    def forget(self):
        with self.lock:
            self.done.clear()

    def alive(self):
        return self.process.poll() is None

    def end(self):
        self.process.kill()
        self.process.wait()


def records(folder, name):
    p = subprocess.run(["zstd", "-dcq", "%s/%s.jsonl.zst" % (folder, name)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return [json.loads(line) for line in p.stdout.splitlines()]


class Failed(Exception):
    pass


def fixture(command, folder):
    p = subprocess.run([BIN + "/fixture", command, folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    return p.returncode, p.stdout


def judge(folder, server, at, found):
    """Verify, repair, verify what a kill at `at` left. Returns the seconds lost."""
    if not os.path.isdir(folder):
        found["no folder yet"] += 1
        if os.listdir(os.path.dirname(folder)):
            raise Failed("left: %s" % os.listdir(os.path.dirname(folder)))
        return None
    whole = os.path.exists(folder + "/manifest.json")
    rc, said = fixture("verify", folder)
    if rc != 4 or "repair" not in said:
        raise Failed("verify of what was left: %d %s" % (rc, said))
    rc, said = fixture("repair", folder)
    if rc:
        raise Failed("repair: %d %s" % (rc, said))
    rc, said = fixture("verify", folder)
    if rc or "interrupted" not in said:
        raise Failed("verify after repair: %d %s" % (rc, said))
    rc, said = fixture("repair", folder)
    if rc or "nothing to do" not in said:
        raise Failed("a second repair: %d %s" % (rc, said))
    if os.listdir(os.path.dirname(folder)) != [os.path.basename(folder)] or not set(os.listdir(folder)) <= FILES:
        raise Failed("left: %s %s" % (os.listdir(os.path.dirname(folder)), os.listdir(folder)))
    steps = {(s.get("pid"), s["step"]) for s in records(folder, "steps")}
    ops = records(folder, "ops")
    if any((o.get("pid"), o["step"]) not in steps for o in ops):
        raise Failed("an op without its step")
    exchanges = [x for x in records(folder, "exchanges") if not x.get("error")]
    oldest, answers = server.lacking(exchanges, at)
    found["with a manifest" if whole else "repaired, %s" % (("with ops" if ops else "no op yet") if server.tapped else
                                                        "with answers" if exchanges else "no answer yet")] += 1
    found.ops += len(ops)
    found.exchanges += len(exchanges)
    found.answers += answers
    return at - oldest


class Found(collections.Counter):
    ops = exchanges = answers = 0


def one(server, work, suite, rng, found):
    """Returns the seconds lost; None: there was nothing yet."""
    folder = work + "/fx"
    server.forget()
    wait = rng.uniform(0, 0.25) if rng.random() < 0.25 else rng.uniform(0, 3 if server.tapped else 2.2)
    log = open(work + ".log", "w+")
    p = subprocess.Popen([BIN + "/record", "--server", "127.0.0.1:%d" % server.port, "-o", folder, "--suite", suite, *(
        ["--repeat", "1", "--tapped-repeat", "1000", "--gemms", "all"] if server.tapped else ["--repeat", "1000", "--gemms", "off"])], stdout=log, stderr=log)
    time.sleep(wait)
    if p.poll() is not None:
        log.seek(0)
        raise Failed("record ended by itself with %d: %s" % (p.returncode, log.read()))
    os.kill(p.pid, signal.SIGKILL)
    at = time.monotonic()
    p.wait()
    log.close()
    try:
        return judge(folder, server, at, found)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    kills, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    lost, failures, found, lock = {True: [], False: []}, [], Found(), threading.Lock()
    start, numbers, load = time.monotonic(), {True: iter(range(4, kills, 5)), False: (i for i in range(kills) if i % 5 != 4)}, os.getloadavg()[0]

    def lane(server, work):
        os.mkdir(work)
        while True:
            with lock:
                i = next(numbers[server.tapped], None)
            if i is None:
                break
            mine = Found()
            try:
                seconds = one(server, work, suite, random.Random(seed * 100003 + i), mine)
                why = None if server.alive() else "the server has ended"
            except Exception as e:
                why = str(e) or repr(e)
            with lock:
                found.update(mine)
                for k in ("ops", "exchanges", "answers"):
                    setattr(found, k, getattr(found, k) + getattr(mine, k))
                if why:
                    failures.append(i)
                    print("FAIL kill %d (seed %d): %s" % (i, seed, why), flush=True)
                elif seconds is not None:
                    lost[server.tapped].append(seconds)
            if why and not server.alive():
                break

    with tempfile.TemporaryDirectory(prefix="td-kill-") as work:
        suite = work + "/suite.jsonl"
        os.environ["TD_TAP_DIR"] = work + "/run"
        with open(suite, "w") as f:
            f.write(SUITE)
        servers = [Tapped()] + [Scripted() for _ in range(max(1, LANES - 1))]
        try:
            lanes = [threading.Thread(target=lane, args=(s, "%s/%d" % (work, i))) for i, s in enumerate(servers)]
            for t in lanes:
                t.start()
            for t in lanes:
                t.join()
        finally:
            for s in servers:
                s.end()
    for kind, n in sorted(found.items()):
        print("found: %s: %d" % (kind, n))
    done = sum(found.values()) + len(failures)
    print("lost: %d s, load %.1f to %.1f, %d answers, %d of them kept, %d ops, seed %d" % (
        time.monotonic() - start, load, os.getloadavg()[0], found.answers, found.exchanges, found.ops, seed))
    for tapped, name in ((False, "requests only"), (True, "with GEMMs")):
        s = sorted(lost[tapped])
        if s:
            print("lost: %s: median %.2f s, 99 %% %.2f s, longest %.2f s, of %d" % (name, s[len(s) // 2], s[len(s) * 99 // 100], s[-1], len(s)))
    if done != kills:
        failures.append(-1)
        print("FAIL: %d kills of %d were made" % (done, kills))
    print("kill_record: %d cases, %d failed" % (kills, len(failures)))
    return bool(failures)


sys.exit(main())
