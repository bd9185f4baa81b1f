# bench.py - interleaved measurements of the tap (run.sh calls it): medians of ratios, 95 % bootstrap intervals.
# SPDX-License-Identifier: Apache-2.0
import concurrent.futures, json, os, random, socket, statistics, subprocess, sys, time, urllib.request

work, server, model, tap, rounds = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5])
random.seed(1)


def interval(values, n=4000):
    medians = sorted(statistics.median(random.choices(values, k=len(values))) for _ in range(n))
    return medians[int(0.025 * n)], medians[int(0.975 * n)]


def asleep():
    def once(preload):
        env = dict(os.environ, **({"LD_PRELOAD": tap} if preload else {}))
        return float(subprocess.run([work + "/asleep"], env=env, capture_output=True, check=True).stdout)
    pairs = []
    for i in range(rounds):
        order = (False, True) if i % 2 else (True, False)
        got = {p: once(p) for p in order}
        pairs.append((got[False], got[True]))
    return pairs


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    def __init__(self):
        self.port = free_port()
        self.process = subprocess.Popen([server, "--model", model, "--port", str(self.port), "--served-model-name", "m"],
                                        env=dict(os.environ, LD_PRELOAD=tap), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(200):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=1).read()
                return
            except OSError:
                time.sleep(0.05)
        raise SystemExit("the demo server does not start")

    def ask(self, i):
        body = {"model": "m", "prompt": f"request {i}: once upon a time there was a kernel", "max_tokens": 96, "temperature": 0, "ignore_eos": True}
        r = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(r, timeout=60))["usage"]["completion_tokens"]

    def tokens_per_s(self, streams):
        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(streams) as pool:
            tokens = sum(pool.map(self.ask, range(streams * 2)))
        return tokens / (time.monotonic() - start)


class Control:
    def __init__(self, port, name):
        self.p = subprocess.Popen([work + "/tapctl", str(port), f"{work}/{name}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def say(self, line):
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()
        answer = self.p.stdout.readline().split()
        if not answer:
            raise SystemExit("tapctl ended")
        return int(answer[1]), int(answer[2])


def armed(streams):
    modes = {"asleep": "off", "asleep again": "off", "sample 10 %, 64 MiB/s": "sample 10 64", "everything": "all"}
    s = Server()
    try:
        s.tokens_per_s(streams)
        c = Control(s.port, f"fixture-{streams}")
        got, ops = {m: [] for m in modes}, {m: [0, 0] for m in modes}
        for _ in range(rounds):
            for m in random.sample(list(modes), len(modes)):
                before = c.say("off")
                if modes[m] != "off":
                    c.say(modes[m])
                got[m].append(s.tokens_per_s(streams))
                after = c.say("off")
                ops[m] = [ops[m][i] + after[i] - before[i] for i in (0, 1)]
        c.p.stdin.close()
        c.p.wait()
        return got, ops
    finally:
        s.process.terminate()
        s.process.wait()


pairs = asleep()
extra = [b - a for a, b in pairs]
lo, hi = interval(extra)
print(f"asleep: without {statistics.median(a for a, _ in pairs):.2f} ns a call, with {statistics.median(b for _, b in pairs):.2f} ns; "
      f"extra {statistics.median(extra):+.2f} ns [{lo:+.2f}, {hi:+.2f}] (95 %, n={len(pairs)} interleaved pairs of processes)")
print(f"armed: tokens/s of one demo server, modes switched in it, {rounds} rounds in random order; ratio to asleep of the same round")
print(f"  {'mode':24} {'streams':>7} {'tokens/s':>9} {'ratio':>7}  {'95 % interval':16} {'ops kept':>9} {'dropped':>8}")
for streams in (1, 4):
    got, ops = armed(streams)
    for m in got:
        ratios = [x / y for x, y in zip(got[m], got["asleep"])]
        lo, hi = interval(ratios)
        print(f"  {m:24} {streams:7} {statistics.median(got[m]):9.0f} {statistics.median(ratios):7.3f}  [{lo:.3f}, {hi:.3f}]   {ops[m][0]:9} {ops[m][1]:8}")
