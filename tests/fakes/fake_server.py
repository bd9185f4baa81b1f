#!/usr/bin/env python3
"""fake_server.py - a fake LLM server without a model, for end-to-end cases of record, replay and
the tap.

It answers in the dialect of vLLM, llama.cpp, SGLang or OpenAI (--shape), in pieces (--split), or
with a fault (--fault). The answer to a prompt is fixed: token i has id 100+i and text " wI" (id 0
and "!" with --fault bang; a loop of three tokens with --fault loop, hardly any text with --fault
quiet; none with empty). With --gpu each answer also launches the GEMMs of a checkpoint's layers
on a fake GPU, so that a tap has something to record. It prints "listening on
http://127.0.0.1:PORT", serves the loopback only, and ends after --seconds. tests/fakes/lib.sh
starts and stops it: fake_start OPTIONS...; `fake_server.py --help` lists the options.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import ctypes
import importlib.util
import json
import os
import socketserver
import struct
import subprocess
import sys
import threading
import time

ap = argparse.ArgumentParser()
ap.add_argument("--shape", choices=["vllm", "llamacpp", "openai", "sglang", "nothing"], default="vllm")
ap.add_argument("--port", type=int, default=0)
ap.add_argument("--split", type=int, default=0, help="bytes in each socket write; 0: one event in each")
ap.add_argument("--pause", type=float, default=0.0, help="seconds between events")
ap.add_argument("--loading", type=float, default=0.0, help="answer 503 for so many seconds after the start")
ap.add_argument("--key", default="", help="require Authorization: Bearer KEY")
ap.add_argument("--fault", default="", choices=["", "detail", "flat", "stream-error", "hang", "nan", "bang", "strict", "redirect", "no-http", "mute", "refuse", "dead", "glyphs", "loop", "quiet", "empty"])
ap.add_argument("--refuse", default="", help="with --fault refuse: answer 400 to bodies with one of these members, comma separated")
ap.add_argument("--vague", action="store_true", help="with --fault refuse: do not name the member")
ap.add_argument("--context", type=int, default=1024, help="max_model_len; llama.cpp's slots get half of it")
ap.add_argument("--params", type=int, default=0, help="n_params of llama.cpp's /v1/models")
ap.add_argument("--die-after", type=int, default=0, help="end in the middle of an answer, after so many complete ones")
ap.add_argument("--renamed", action="store_true", help="SGLang's /get_model_info and /get_server_info under their new names only")
ap.add_argument("--dev", action="store_true", help="offer vLLM's /server_info and /reset_prefix_cache")
ap.add_argument("--worse", type=float, default=0.0, help="make each token of a scored text so many nats less likely")
ap.add_argument("--garble", action="store_true", help="spell the tokens of an answer wrongly, as a broken detokenizer does")
ap.add_argument("--ignore", default="", help="ignore these members of a body, comma separated, and do not say so")
ap.add_argument("--end", default="length", help="the finish_reason of answers; empty: none is given")
ap.add_argument("--unmarked", type=int, default=0, help="end each so many-th streamed answer without [DONE]: 1 all, 2 every other one")
ap.add_argument("--named", default="fake", help="the name of the model")
ap.add_argument("--mixed", type=float, default=0.0, help="make every other token of a scored text so many nats less likely, the others more")
ap.add_argument("--gpu", default="", help="lib_cuda_model.so or lib_hip_model.so: answers launch the GEMMs of --model's layers")
ap.add_argument("--torch", default="", help="a library of torch operators (lib_fake_torch_ops.so): each event of an answer calls one three times")
ap.add_argument("--steps", default="", help="a Python file that computes the steps: its gpu_model_step(rows)")
ap.add_argument("--library", default="", help="with --gpu: also load this library, as a server loads its kernels")
ap.add_argument("--graphs", default="", help="batch sizes, \"1,4,8\": capture a CUDA graph of each at the start; "
                "a step runs in the smallest that fits")
ap.add_argument("--model", default="", help="with --gpu: a 4-bit GPTQ checkpoint")
ap.add_argument("--ranks", type=int, default=1, help="tensor parallel: so many worker processes, each with a GPU and a slice of each layer")
ap.add_argument("--rank", type=int, default=-1, help="be one of these workers: each line on stdin is a step of so many rows")
ap.add_argument("--true-steps", action="store_true", help="with --gpu: exactly one step for the prompt and one for each "
                "further token; usage counts the prompt's words")
ap.add_argument("--overflow", default="", help="with --gpu: this layer gets a too large input at the sixth event of an "
                "answer, if the prompt contains the word overflow")
ap.add_argument("--seconds", type=float, default=120)
args = ap.parse_args()
start = time.monotonic()


def checkpoint(path):
    raw = open(path + "/model.safetensors", "rb").read()
    n = struct.unpack_from("<Q", raw)[0]
    head = json.loads(raw[8:8 + n])
    return {k: (v["shape"], raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]) for k, v in head.items() if k != "__metadata__"}


def columns(data, rows, n, first, behind):
    """Columns [first, behind) of a matrix of `rows` rows of n elements."""
    size = len(data) // rows // n
    return b"".join(data[(r * n + first) * size:(r * n + behind) * size] for r in range(rows))


def slices(name, words, n, groups, qweight, qzeros, scales):
    """A rank's slice of a layer, as Megatron and vLLM cut it: o_proj and down_proj by rows (inputs), others by columns."""
    if args.ranks == 1:
        return words, n, groups, qweight, qzeros, scales
    r, of = args.rank, args.ranks
    if name.endswith(("o_proj", "down_proj")):
        part = lambda data: data[len(data) * r // of:len(data) * (r + 1) // of]
        return words // of, n, groups // of, part(qweight), part(qzeros), part(scales)
    a, b = n * r // of, n * (r + 1) // of
    return words, b - a, groups, columns(qweight, words, n, a, b), columns(qzeros, groups, n // 8, a // 8, b // 8), columns(scales, groups, n, a, b)


def load(gpu):
    """Give the layers of --model to the fake GPU. Act-order is prepared as vLLM does it: rows sorted by group."""
    tensors = checkpoint(args.model)
    v2 = json.load(open(args.model + "/config.json"))["quantization_config"]["checkpoint_format"] == "gptq_v2"
    names[:] = sorted(k[:-len(".qweight")] for k in tensors if k.endswith(".qweight"))
    for name in names:
        (words, n), qweight = tensors[name + ".qweight"]
        (groups, _), scales = tensors[name + ".scales"]
        words, n, groups, qweight, qzeros, scales = slices(name, words, n, groups, qweight, tensors[name + ".qzeros"][1], scales)
        if args.ranks > 1:
            if gpu.gpu_model_layer(n, words * 8, groups, v2, qweight, qzeros, scales, None):
                sys.exit("the fake GPU took no layer " + name)
            continue
        order = struct.unpack(f"<{words * 8}i", tensors[name + ".g_idx"][1])
        perm = sorted(range(words * 8), key=lambda i: order[i])
        perm = None if perm == list(range(words * 8)) else struct.pack(f"<{words * 8}i", *perm)
        if gpu.gpu_model_layer(n, words * 8, groups, v2, qweight, tensors[name + ".qzeros"][1], scales, perm):
            sys.exit("the fake GPU took no layer " + name)
    for name in sorted(k for k in tensors if k.endswith("layernorm.weight") and os.environ.get("TD_GPU_MODEL_BESIDE")):
        if gpu.gpu_model_norm(tensors[name][0][0], tensors[name][1]):
            sys.exit("the fake GPU took no norm " + name)


gpu, engine, names = None, threading.Lock(), []
torch = None
if args.torch:  # the fake torch comes first, as Python's torch loads its own; a real one is what the library is linked with
    fake = os.path.join(os.path.dirname(args.torch), "lib_fake_torch.so")
    if os.path.exists(fake):
        ctypes.CDLL(fake, ctypes.RTLD_GLOBAL)
    torch = ctypes.CDLL(args.torch)
workers = []
if args.ranks > 1 and args.rank < 0:  # with the process titles of vLLM's multiproc executor
    for r in range(args.ranks):
        workers.append(subprocess.Popen([f"VLLM::Worker_TP{r}", __file__, "--gpu", args.gpu, "--model", args.model, "--ranks", str(args.ranks), "--rank", str(r)],
                                        executable=sys.executable, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | {"TD_GPU_MODEL_DEVICE": str(r)}))
    for w in workers:
        w.stdout.readline()
elif args.gpu:
    library = ctypes.CDLL(args.library) if args.library else None
    gpu = ctypes.CDLL(args.gpu)
    if (rc := gpu.gpu_model_open()):
        sys.exit(f"no fake GPU: {rc}")
    load(gpu)
    for size in filter(None, args.graphs.split(",")):
        if gpu.gpu_model_capture(int(size)):
            sys.exit("the fake GPU captures no graph of " + size)


elif args.steps:
    spec = importlib.util.spec_from_file_location("steps", args.steps)
    gpu = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gpu)


if args.rank >= 0:
    print("ready", flush=True)
    for line in sys.stdin:
        if gpu.gpu_model_step(int(line)):
            os._exit(1)
        print("done", flush=True)
    os._exit(0)


def steps_of(event, first):
    """Steps of one row that an event needs: one for each token, none for the first, which the prompt's step gives."""
    if not args.true_steps:
        return 1
    tokens = len(event["choices"][0].get("token_ids", [])) if isinstance(event, dict) and event["choices"] else 0
    return tokens - 1 if first else tokens


def run_step(rows, overflow=False):
    if workers:
        with engine:
            for w in workers:
                w.stdin.write(b"%d\n" % rows)
                w.stdin.flush()
            for w in workers:
                if not w.stdout.readline():
                    os._exit(1)
    if torch and torch.fake_ops_run(3):
        os._exit(1)
    if gpu:
        with engine:
            if overflow:
                gpu.gpu_model_overflow(names.index(args.overflow))
            if gpu.gpu_model_step(rows):
                os._exit(1)


class Handler(socketserver.StreamRequestHandler):
    tokens = answers = 0

    def send(self, data):
        step = args.split or len(data)
        for i in range(0, len(data), step):
            self.request.sendall(data[i:i + step])
            if args.split:
                time.sleep(0.0002)

    def reply(self, status, body, kind="application/json", more=""):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send(f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body)

    def handle(self):
        self.request.setsockopt(6, 1, 1)  # TCP_NODELAY
        while True:
            line = self.rfile.readline(65536).decode("latin-1")
            if not line.strip():
                return
            method, path, _ = line.split(" ", 2)
            headers = {}
            while (h := self.rfile.readline(65536).decode("latin-1").strip()):
                name, _, value = h.partition(":")
                headers[name.lower()] = value.strip()
            body = self.rfile.read(int(headers.get("content-length", 0)))
            if args.key and headers.get("authorization") != "Bearer " + args.key:
                self.reply(401, {"error": "Unauthorized"})
            elif time.monotonic() - start < args.loading:
                self.reply(503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}})
            elif method == "GET":
                self.get(path)
            elif self.post(path, json.loads(body or b"{}"), headers):
                return

    def get(self, path):
        owner = {"vllm": "vllm", "llamacpp": "llamacpp", "sglang": "sglang"}.get(args.shape, "someone")
        if args.shape == "nothing":
            return self.reply(200, b"<html>hello</html>", "text/html") if path == "/health" else self.reply(404, b"no", "text/plain")
        if path == "/health" and args.shape != "openai":
            return self.reply(200, {"status": "ok"})
        if path == "/version" and args.shape == "vllm":
            return self.reply(200, {"version": "0.99.fake"})
        if path == "/props" and args.shape == "llamacpp":
            return self.reply(200, {"build_info": "b1-fake", "model_path": "/m/fake.gguf", "default_generation_settings": {"n_ctx": args.context // 2}})
        if path == "/metrics" and args.shape != "openai":
            name = "llamacpp" if args.shape == "llamacpp" else args.shape
            return self.reply(200, f"# TYPE {name}:tokens_total counter\n{name}:tokens_total{{model=\"a b\"}} {Handler.tokens}\n"
                              f"{name}:fixed 1\nprocess_open_fds 9\n".encode(), "text/plain")
        if path == "/inference/v1/generate" and args.shape == "vllm":
            return self.reply(405, {"detail": "Method Not Allowed"})
        if path == "/server_info" and args.dev:
            return self.reply(200, {"vllm_config": "model='fake'", "vllm_env": {"VLLM_X": "1", "HF_TOKEN": "hush"}, "system_env": {"long": "x" * 1000}})
        if path == ("/model_info" if args.renamed else "/get_model_info") and args.shape == "sglang":
            return self.reply(200, {"model_path": "/m/fake", "tokenizer_path": "/m/fake", "is_generation": True})
        if path == ("/server_info" if args.renamed else "/get_server_info") and args.shape == "sglang":
            return self.reply(200, {"version": "0.5.fake", "context_length": 512, "api_key": "hush", "schedule_policy": "fcfs"})
        if path == "/v1/models":
            meta = {"meta": {"n_vocab": 64, "n_params": args.params, "size": 4096, "ftype": "Q4_1"}} if args.params else {}
            return self.reply(200, {"object": "list", "data": [{"id": args.named, "object": "model", "owned_by": owner, "max_model_len": args.context, **meta}]})
        return self.reply(404, {"detail": "Not Found"})

    def post(self, path, req, headers):
        """Answer; True when the connection is to be closed."""
        if args.fault == "detail":
            return self.reply(422, {"detail": [{"loc": ["body"], "msg": "field required", "type": "missing"}]})
        if args.fault == "flat":
            return self.reply(400, {"object": "error", "message": "flat error", "type": "BadRequestError", "code": 400})
        if args.fault == "mute":
            time.sleep(args.seconds)
            return True
        if args.fault == "redirect":
            return self.reply(307, b"", more="Location: http://elsewhere/\r\n")
        if args.fault == "no-http":
            self.send(b"220 mail.example ESMTP\r\n")
            return True
        if path in ("/reset_prefix_cache", "/flush_cache"):
            return self.reply(200, {"success": True}) if args.dev else self.reply(404, {"detail": "Not Found"})
        if args.fault == "dead":  # as vLLM does when its engine is gone and /health has not noticed
            return self.reply(500, {"error": {"message": "EngineCore encountered an issue.", "type": "InternalServerError", "code": 500}})
        for f in args.ignore.split(","):
            req.pop(f, None)
        bad = [f for f in args.refuse.split(",") if f in req]
        if args.fault == "refuse" and bad:
            words = "invalid request" if args.vague else f"Extra inputs are not permitted: {bad[0]}"
            return self.reply(400, {"error": {"message": words, "type": "BadRequestError", "code": 400}})
        if path == "/apply-template":
            return self.reply(200, {"prompt": "<chat>" + req["messages"][-1]["content"]})
        known = {"model", "prompt", "messages", "max_tokens", "temperature", "top_p", "presence_penalty", "frequency_penalty", "seed",
                 "logprobs", "top_logprobs", "stream", "stream_options"}
        if args.fault == "strict" and set(req) - known:
            return self.reply(400, {"error": {"message": "unknown field " + sorted(set(req) - known)[0], "type": "invalid_request_error"}})
        sampling = req.get("sampling_params", req)
        n = sampling.get("max_tokens", req.get("n_predict", sampling.get("max_new_tokens", 16)))
        if args.fault == "empty":
            n = 0
        Handler.tokens += n
        if path == "/completion" and not req["stream"]:
            text = "".join(self.glyph(i) for i in range(n)) if args.fault == "glyphs" else "".join(self.token(i)[1] for i in range(n))
            return self.reply(200, {"index": 0, "content": text, "tokens": [self.token(i)[0] for i in range(n)], "stop": True, "stop_type": "limit",
                                    "tokens_predicted": n, "tokens_evaluated": 4})
        if not req.get("stream") and (path == "/v1/completions" and "prompt_logprobs" in req or path == "/generate"):
            return self.score(path, req)
        Handler.answers += 1
        answer = Handler.answers
        self.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        words = len(str(req.get("prompt", "")).split()) or 1
        run_step(words)
        for i, event in enumerate(self.events(path, req, n, headers)):
            for _ in range(steps_of(event, i == 0)):
                run_step(1, args.overflow and i == 5 and "overflow" in str(req.get("prompt", "")))
            if args.pause:
                time.sleep(args.pause)
            if args.fault == "hang" and i == 3:
                time.sleep(args.seconds)
            if args.die_after and Handler.answers > args.die_after and i == 3:
                os._exit(1)
            if args.fault == "stream-error" and i == 3:
                event = {"error": {"message": "engine died", "type": "InternalServerError", "code": 500}}
            if event == b"[DONE]" and args.unmarked and answer % args.unmarked == 0:
                break
            data = b": ping\r\n\r\n" if event is None else b"data: " + (event if isinstance(event, bytes) else json.dumps(event).encode()) + b"\n\n"
            self.send(b"%x\r\n%s\r\n" % (len(data), data))
        self.send(b"0\r\n\r\n")

    def score(self, path, req):
        """Answer with prompt logprobs. A token's logprob depends on its id; at every third place token 7 is likelier."""
        ids = req.get("prompt", req.get("input_ids"))
        if args.fault == "nan":  # Python's json of vLLM
            return self.reply(400, {"error": {"message": "Out of range float values are not JSON compliant: nan", "type": "BadRequestError", "code": 400}})
        lps = [-0.25 - t % 5 / 8 - args.worse - (args.mixed if i % 2 else -args.mixed) for i, t in enumerate(ids)]
        if path == "/generate":
            meta = {"id": "r1", "finish_reason": {"type": "length", "length": 1}, "prompt_tokens": len(ids), "completion_tokens": 1,
                    "input_token_logprobs": [[lp if i else None, t, None] for i, (t, lp) in enumerate(zip(ids, lps))],
                    "input_top_logprobs": [[[-0.125, 7, None]] if i else None for i in range(len(ids))]}
            return self.reply(200, {"text": " w0", "output_ids": [100], "meta_info": meta})
        at = [{str(t): {"logprob": lp, "rank": 1 + (i % 3 == 0), "decoded_token": f" t{t}"}, **({} if i % 3 else {"7": {"logprob": -0.125, "rank": 1, "decoded_token": " x"}})}
              for i, (t, lp) in enumerate(zip(ids, lps))]
        c = {"index": 0, "text": " w0", "logprobs": None, "finish_reason": "length", "stop_reason": None, "token_ids": [100], "prompt_logprobs": [None] + at[1:],
             "prompt_token_ids": ids if req.get("return_token_ids") else None}
        return self.reply(200, {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "fake", "choices": [c],
                                "usage": {"prompt_tokens": len(ids), "completion_tokens": 1, "total_tokens": len(ids) + 1}})

    def glyph(self, i):
        """The text of token i if three tokens make one glyph. An answer may end within a glyph."""
        return "\U0001f9ec" if i % 3 == 2 else ""

    def token(self, i):
        if args.fault == "bang" and i >= 2:
            return 0, "!"
        if args.fault == "loop" and i >= 6:
            return 100 + i % 3, f" w{i % 3}"
        if args.fault == "quiet":
            return 100 + i, "e" if i % 16 == 0 else ""
        return 100 + i, f" w{i}"

    def events(self, path, req, n, headers):
        lp = float("nan") if args.fault == "nan" else -0.25
        if path == "/completion":
            for i in range(n):
                t, text = self.token(i)
                if args.fault == "glyphs":
                    text = self.glyph(i)
                    if not text:
                        continue
                yield {"index": 0, "content": text, "tokens": [t], "stop": False, "id_slot": -1, "tokens_predicted": i + 1, "completion_probabilities": [
                    {"id": t, "token": text, "bytes": list(text.encode()), "logprob": lp, "top_logprobs": [
                        {"id": t, "token": text, "bytes": [], "logprob": lp}, {"id": 7, "token": "x", "bytes": [], "logprob": -2.5}]}]}
            yield {"index": 0, "content": "", "tokens": [], "stop": True, "stop_type": "limit", "tokens_predicted": n, "tokens_evaluated": 4}
            return
        if path == "/generate":  # SGLang: text and arrays repeat what came before
            lps, top = [[lp, self.token(i)[0], None] for i in range(n)], [[[lp, self.token(i)[0], None], [-2.5, 7, None]] for i in range(n)]
            for i in range(1, n + 1):
                meta = {"id": "r1", "finish_reason": {"type": "length", "length": n} if i == n else None, "prompt_tokens": 3, "completion_tokens": i,
                        "cached_tokens": 0}
                if req.get("return_logprob"):
                    meta.update({"output_token_logprobs": lps[:i], "output_top_logprobs": top[:i]})
                yield {"text": "".join(self.token(j)[1] for j in range(i)), "output_ids": [self.token(j)[0] for j in range(i)], "meta_info": meta}
            yield b"[DONE]"
            return
        if path == "/inference/v1/generate":
            rid = "generate-tokens-" + headers.get("x-request-id", "none")
            for i in range(n):
                t, _ = self.token(i)
                entry = {"token_id": t, "logprob": lp, "rank": 1, "top_logprobs": [{"token_id": t, "logprob": lp, "rank": 1}, {"token_id": 7, "logprob": -2.5, "rank": 2}]}
                ev = {"request_id": rid, "usage": None, "output_mode": "tokens", "choices": [{"index": 0, "finish_reason": "length" if i + 1 == n else None,
                      "token_ids": [t], "logprobs": {"content": [entry]}}]}
                if i == 0 and req.get("return_token_ids"):
                    ev["prompt_token_ids"] = req["token_ids"]
                yield ev
            yield {"request_id": rid, "usage": {"prompt_tokens": len(req["token_ids"]), "completion_tokens": n, "total_tokens": 0}, "output_mode": "tokens", "choices": []}
            yield b"[DONE]"
            return
        rid = "cmpl-" + headers.get("x-request-id", "none")
        ids = args.shape == "vllm" and req.get("return_token_ids")
        as_ids = args.shape == "vllm" and req.get("return_tokens_as_token_ids")
        if "messages" in req:
            yield {"id": rid, "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None}]}
        i = 0
        while i < n:
            k = 2 if args.shape == "vllm" and i % 5 == 4 and i + 1 < n else 1  # some events carry two tokens
            some = [self.token(i + j) for j in range(k)]
            name = [f"token_id:{t}" if as_ids else s for t, s in some]
            text = "".join(s for _, s in some)
            if args.garble:
                text = text.replace(" ", "\u0120")
            c = {"index": 0, "finish_reason": args.end or None if i + k >= n else None}
            if "messages" in req:
                c["delta"] = {"content": text}
                if req.get("logprobs"):
                    c["logprobs"] = {"content": [{"token": s, "logprob": lp, "bytes": [], "top_logprobs": [{"token": s, "logprob": lp}]} for s in name]}
            else:
                c["text"] = text
                if req.get("logprobs"):
                    c["logprobs"] = {"text_offset": [0] * k, "token_logprobs": [lp] * k, "tokens": name,
                                     "top_logprobs": [{s: lp, ("token_id:7" if as_ids else "x"): -2.5} for s in name]}
            if ids:
                c["token_ids"] = [t for t, _ in some]
                c["prompt_token_ids"] = [1, 2, 3] if i == 0 else None
            yield {"id": rid, "object": "text_completion", "created": 1, "model": "fake", "choices": [c]}
            if i == 0:
                yield None
            i += k
        if req.get("stream_options", {}).get("include_usage"):
            p = len(str(req.get("prompt", "")).split()) if args.true_steps else 3
            yield {"id": rid, "choices": [], "usage": {"prompt_tokens": p, "completion_tokens": n, "total_tokens": p + n}, "system_fingerprint": "fp-fake"}
        yield b"[DONE]"


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, request, client_address):
        pass  # a client that went away


def serve(handler):
    with Server(("127.0.0.1", args.port), handler) as server:
        print(f"listening on http://127.0.0.1:{server.server_address[1]}", flush=True)
        threading.Timer(args.seconds, lambda: os._exit(0)).start()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            sys.exit(0)


if __name__ == "__main__":
    serve(Handler)
