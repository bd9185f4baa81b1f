# bench.py - interleaved measurements of the tap (run.sh calls it): medians of ratios, 95 % bootstrap intervals.
# usage: bench.py WORK ROUNDS TAP SERVER ARGUMENTS...     SERVER and its arguments: a function of servers.py
# SPDX-License-Identifier: Apache-2.0
import hashlib, itertools, json, os, random, signal, statistics, subprocess, sys, time

import servers

work, rounds, tap, kind, arguments = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5:]
# No round begins later than this after the server's start. At least one round is run.
seconds = float(os.environ.get("BENCH_SECONDS", "inf"))
random.seed(1)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))     # by way of `finally`: no server stays
SAMPLE = "sample (--gemms auto)"
MODES = {"asleep": "off", "asleep again": "off", SAMPLE: "auto", "everything": "all"}
if kind == "vllm_gpu":  # asleep: not subscribed
    MODES |= {"counting": "count", "flight recorder": "sample 0.0001 64 256"}
if os.environ.get("MODES"):
    MODES = {m: v for m, v in MODES.items() if m == "asleep" or any(m.startswith(w) for w in os.environ["MODES"].split(","))}
if os.environ.get("BENCH_KEEP"):
    os.makedirs(os.environ["BENCH_KEEP"], exist_ok=True)
WARM_S = {SAMPLE: 6 if kind == "vllm_gpu" else 2}


def interval(values, n=4000):
    medians = sorted(statistics.median(random.choices(values, k=len(values))) for _ in range(n))
    return medians[int(0.025 * n)], medians[int(0.975 * n)]


def asleep(kind):
    def once(preload):
        env = dict(os.environ, **({"LD_PRELOAD": tap, "CUDA_INJECTION64_PATH": tap} if preload else {}))
        return float(subprocess.run([work + "/asleep", kind], env=env, capture_output=True, check=True).stdout)
    pairs = []
    for i in range(rounds):
        order = (False, True) if i % 2 else (True, False)
        got = {p: once(p) for p in order}
        pairs.append((got[False], got[True]))
    extra = [b - a for a, b in pairs]
    lo, hi = interval(extra)
    what = {"llamacpp": "step (ggml_backend_sched_graph_compute_async)", "vllm": "GEMM (at::linear)", "graph": "graph (cudaGraphLaunch)",
            "cublas": "GEMM (cublasGemmEx)"}.get(kind, "GEMM (td_gptq_gemm)")
    print(f"asleep, a {what}: without {statistics.median(a for a, _ in pairs):.2f} ns, with {statistics.median(b for _, b in pairs):.2f} ns; "
          f"extra {statistics.median(extra):+.2f} ns [{lo:+.2f}, {hi:+.2f}] (95 %, n={len(pairs)} interleaved pairs of processes)", flush=True)


class Control:
    """A running tapctl, which arms and disarms the tap, and its CPU time."""

    def __init__(self, port, name):
        self.p = subprocess.Popen([work + "/tapctl", str(port), f"{work}/{name}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def say(self, line):
        """Send a command. Returns the sums over all arms so far: ops recorded, ops dropped, ms in which the tap rested."""
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()
        answer = self.p.stdout.readline().split()
        if not answer:
            raise SystemExit("tapctl ended")
        return [int(x) for x in answer[1:]]

    def cpu(self):
        return servers.cpu_seconds([self.p.pid])

    def warm_up(self, server, mode, streams):
        """Send requests until the work that comes once an arm is done, so that it is not timed: the weights go over, and on a GPU a
        sample first rests after 5 s. The prompts are those that will be timed: a prompt of a new size would wake the tap."""
        end = time.monotonic() + WARM_S.get(mode, 0)
        for i in itertools.count():
            server.ask(i % (2 * streams))
            if time.monotonic() >= end:
                break

    def wait_until_idle(self, patience_s=30):
        """Wait until the recorder has hashed, named and compressed the weights, which come once an arm."""
        end, before = time.monotonic() + patience_s, -1.0
        while time.monotonic() < end and self.cpu() - before > 0.01:
            before = self.cpu()
            time.sleep(0.3)


def print_progress(got, done):
    """Print the ratios so far to stderr: a run that is cut off has then shown its figures."""
    if sys.stderr.isatty() or done % 10 == 0:
        ratios = ", ".join(f"{m} {statistics.median(x[0] / max(y[0], 1e-9) for x, y in zip(got[m], got['asleep'])):.3f}" for m in got if m != "asleep")
        print(f"\rround {done}/{rounds}: {ratios}", end="" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)


def rounds_path(streams):
    return f"{os.environ['BENCH_KEEP']}/rounds-{kind}-{streams}.json"


def setting():
    """The tap, model and server of these figures. Rounds of another setting must not be joined with them."""
    with open(tap, "rb") as f:
        return {"tap": hashlib.sha256(f.read()).hexdigest(), "arguments": arguments, "tokens": os.environ.get("TOKENS", ""), "graphs": os.environ.get("GRAPHS", "")}


def save_rounds(streams, got, ops):
    """Write all rounds so far, so that a later run can go on from here."""
    if os.environ.get("BENCH_KEEP"):
        path = rounds_path(streams)
        with open(path + ".new", "w") as f:
            json.dump({"setting": setting(), "rounds": got, "ops": ops}, f)
        os.replace(path + ".new", path)


def saved_rounds(streams):
    """Read the rounds of an earlier run of the same modes. One round has one server; several rounds may have several."""
    if os.environ.get("BENCH_KEEP") and os.path.exists(rounds_path(streams)):
        with open(rounds_path(streams)) as f:
            before = json.load(f)
        if list(before["rounds"]) != list(MODES) or before.get("setting") != setting():
            raise SystemExit(f"{rounds_path(streams)} holds rounds of other modes, another tap or another setting; name another folder, or remove that file")
        print(f"  {len(before['rounds']['asleep'])} rounds were saved by an earlier run, which had another server", flush=True)
        return before["rounds"], before["ops"]
    return {m: [] for m in MODES}, {m: [0, 0, 0] for m in MODES}


def armed(streams):
    """Run the rounds. Returns mode -> [(tokens/s, CPU ms of the server a token, CPU ms of the recorder a token, the median ms
    between events)], and mode -> [ops recorded, ops dropped, ms rested]."""
    got, ops = saved_rounds(streams)
    done = len(got["asleep"])
    random.seed(1 + done)                 # a run that goes on draws other orders than the run before
    if done >= rounds:
        return got, ops
    s = getattr(servers, kind)(*arguments, tap)
    try:
        s.measure(streams)
        c = Control(s.port, f"fixture-{streams}")
        end = time.monotonic() + seconds
        for i in range(done, rounds):
            if i > done and time.monotonic() > end:
                break
            for m in random.sample(list(MODES), len(MODES)):
                before = c.say("off")
                if MODES[m] != "off":
                    c.say(MODES[m])
                    c.warm_up(s, m, streams)
                c.wait_until_idle()       # each mode is timed after the same rest ...
                s.ask(0)                  # ... and a request that wakes the server
                busy = c.cpu()
                c.say("pause")            # as record does around requests
                speed, cpu, gap = s.measure(streams)
                c.say("resume")
                after = c.say("off")
                got[m].append((speed, cpu, 1000 * (c.cpu() - busy) / (2 * streams * s.tokens), gap))
                ops[m] = [o + b - a for o, a, b in zip(ops[m], before, after)]
            print_progress(got, i + 1)
            save_rounds(streams, got, ops)
        c.p.stdin.close()
        c.p.wait()
        return got, ops
    finally:
        s.stop()


def print_row(got, m, streams, ops):
    cells = []
    for k in (0, 3, 1):
        ratios = [x[k] / max(y[k], 1e-9) for x, y in zip(got[m], got["asleep"])]
        lo, hi = interval(ratios)
        cells.append(f"{statistics.median(ratios):6.3f} [{lo:.3f}, {hi:.3f}]")
    med = [statistics.median(x[k] for x in got[m]) for k in range(4)]
    print(f"  {m:22} {streams:7} {len(got[m]):6} {med[0]:9.1f} {cells[0]:>23} {med[3]:7.3f} {cells[1]:>23} {med[1]:9.2f} {cells[2]:>23} {med[2]:9.2f} {ops[m][0]:9} {ops[m][1]:8} {ops[m][2] / 1000:8.1f}", flush=True)


if kind != "vllm_gpu":  # while asleep, the tap is not subscribed there: no call passes through it
    for what in ("graph", "cublas") if kind == "cuda" else (kind,):
        asleep(what)
if kind == "cuda":
    sys.exit()
print(f"armed: one {kind} server, modes switched in it, up to {rounds} rounds in random order; ratios to asleep of the same round, 95 % intervals;")
print("  ITL: the median time between events; CPU of the server's processes, and of the recorder (hash, compress, write), in ms a token; the recorder shares the machine's cores")
print(f"  {'mode':22} {'streams':>7} {'rounds':>6} {'tokens/s':>9} {'ratio':>23} {'ITL ms':>7} {'ratio':>23} {'CPU ms/tk':>9} {'ratio':>23} {'recorder':>9} {'recorded':>9} {'dropped':>8} {'rested s':>8}")
for streams in map(int, os.environ.get("STREAMS", "1 4").split()):
    got, ops = armed(streams)
    for m in got:
        print_row(got, m, streams, ops)
