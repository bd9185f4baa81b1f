# servers.py - the servers that the tap is measured in: how each is started and asked. SPDX-License-Identifier: Apache-2.0
import concurrent.futures, json, os, signal, socket, statistics, subprocess, time, urllib.request

TICK = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def children(pid):
    """pid and all its descendants."""
    parent = {}
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent[int(p)] = int(open(f"/proc/{p}/stat").read().rsplit(") ", 1)[1].split()[1])
        except OSError:
            pass
    found, more = set(), {pid}
    while more:
        found |= more
        more = {p for p, q in parent.items() if q in more} - found
    return found


def cpu_seconds(pids):
    total = 0
    for p in pids:
        try:
            f = open(f"/proc/{p}/stat").read().rsplit(") ", 1)[1].split()
            total += int(f[11]) + int(f[12])
        except OSError:
            pass
    return total / TICK


class Server:
    """command : what is run, PORT stands for the port; the tap is preloaded into it."""

    def __init__(self, command, tap, tokens, env=(), patience_s=20):
        self.port, self.tokens = free_port(), int(os.environ.get("TOKENS", tokens))
        self.process = subprocess.Popen([a.replace("PORT", str(self.port)) for a in command], env=dict(os.environ, LD_PRELOAD=tap, **dict(env)),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        end = time.monotonic() + patience_s
        while time.monotonic() < end and self.process.poll() is None:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=1).read()
                self.ask(0)
                return
            except OSError:
                time.sleep(0.1)
        self.stop()
        raise SystemExit(f"{command[0]} does not start")

    def ask(self, i):
        """Send request i and read its stream. Returns its tokens, and the ms between its events."""
        body = {"model": "m", "prompt": f"request {i}: once upon a time there was a kernel", "max_tokens": self.tokens, "temperature": 0,
                "ignore_eos": True, "cache_prompt": False, "stream": True, "stream_options": {"include_usage": True}}
        r = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        times, tokens = [], 0
        with urllib.request.urlopen(r, timeout=300) as answer:
            for line in answer:
                if not line.startswith(b"data: {"):
                    continue
                event = json.loads(line[6:])
                if event.get("choices"):
                    times.append(time.monotonic())
                if event.get("usage"):
                    tokens = event["usage"]["completion_tokens"]
        return tokens, [1000 * (b - a) for a, b in zip(times, times[1:])]

    def measure(self, streams):
        """(tokens/s, CPU ms of the server's processes per token, the median ms between events) of two requests a stream."""
        pids = children(self.process.pid)
        cpu, start = cpu_seconds(pids), time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(streams) as pool:
            answers = list(pool.map(self.ask, range(streams * 2)))
        took = time.monotonic() - start
        tokens = sum(n for n, _ in answers)
        return tokens / took, 1000 * (cpu_seconds(pids) - cpu) / tokens, statistics.median(gap for _, gaps in answers for gap in gaps)

    def stop(self):
        for sig in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, sig)
                self.process.wait(30)
            except (OSError, subprocess.TimeoutExpired):
                pass


def demo(bin_dir, model, tap):
    return Server([f"{bin_dir}/demo-server", "--model", model, "--port", "PORT", "--served-model-name", "m"], tap, 96)


def llamacpp(folder, tap):
    return Server([f"{folder}/build/bin/llama-server", "-m", f"{os.path.dirname(folder)}/model.gguf", "--host", "127.0.0.1", "--port", "PORT", "-t", "1", "-c", "4096",
                   "-np", "4", "--no-webui"], tap, 32, {"OMP_WAIT_POLICY": "passive"})


def vllm(folder, model, tap):
    """folder : with venv/; as tests/live/rows_vllm.sh serves it."""
    env = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "TORCH_COMPILE_DISABLE": "1",
           "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CACHE_ROOT": f"{folder}/cache"}
    return Server([f"{folder}/venv/bin/python", f"{folder}/venv/bin/vllm", "serve", model, "--host", "127.0.0.1", "--port", "PORT",
                   "--served-model-name", "m", "--dtype", "bfloat16", "--max-model-len", "1024", "--enforce-eager", "--max-num-seqs", "4",
                   "--no-enable-prefix-caching", "--no-async-scheduling", "--seed", "0"], tap, 32, env, 300)


def vllm_gpu(python, model, tap):
    """python : imports vllm, with a GPU; as tests/live/vllm_gpu.sh serves it: eager, GPTQ by exllama's kernels. GRAPHS=1: with CUDA graphs. BACKEND=NAME: vLLM's --linear-backend
    ("auto": what it chooses itself)."""
    env = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_HOST_IP": "127.0.0.1",
           "VLLM_USE_FLASHINFER_SAMPLER": "0", "CUDA_INJECTION64_PATH": tap}
    graphs = [] if os.environ.get("GRAPHS") else ["--enforce-eager"]
    return Server([python, "-m", "vllm.entrypoints.cli.main", "serve", model, "--host", "127.0.0.1", "--port", "PORT", "--served-model-name", "m",
                   "--dtype", "half", "--max-model-len", "2048", "--gpu-memory-utilization", "0.3", "--kv-cache-memory-bytes", "1073741824",
                   "--no-enable-prefix-caching", "--max-num-seqs", "16", "--seed", "0", "--linear-backend", os.environ.get("BACKEND", "exllama"), *graphs], tap, 128, env, 300)
