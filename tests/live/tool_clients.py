"""tool_clients.py BIN TOOL EXECUTABLE [REQUESTS] - run a load tool, and hold its figures against the wire.

A server with scripted times answers; TOOL (guidellm, aiperf or inference-perf) sends its load with four requests in flight;
record --passive listens. Printed are the tool's own figures, and those that fixture stats --metrics-as TOOL computes of what
was on the wire: the difference is the tool's own delay. How many requests and tokens there were must agree. Needs the right
to capture (CAP_NET_RAW). No hub is asked: the tokenizer is made here. A tool that is missing ends with status 77.
SPDX-License-Identifier: Apache-2.0
"""
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

TTFT_S, GAP_S, TOKENS = 0.080, 0.010, 24
CONCURRENCY = 4

# ---- the server ----------------------------------------------------------------------------------------------------


def event(value):
    data = b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


def piece(chat, **choice):
    """A message of a chat or a completion; a text stands where each has it."""
    text = choice.pop("text", None)
    if chat:
        choice.setdefault("delta", {} if text is None else {"content": text})
    else:
        choice.pop("delta", None)
        choice["text"] = text or ""
    return {"id": "x", "object": "chat.completion.chunk" if chat else "text_completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "finish_reason": None, **choice}]}


async def answer(writer, chat, usage):
    loop = asyncio.get_running_loop()
    start = loop.time()
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    await asyncio.sleep(TTFT_S / 2)
    if chat:
        writer.write(event(piece(True, delta={"role": "assistant", "content": ""})))
    for i in range(TOKENS):
        await asyncio.sleep(max(0, start + TTFT_S + i * GAP_S - loop.time()))
        writer.write(event(piece(chat, text=f" w{i}", finish_reason="length" if i == TOKENS - 1 else None)))
    if usage:
        writer.write(event(dict(piece(chat), choices=[], usage={"prompt_tokens": 5, "completion_tokens": TOKENS,
                                                                "total_tokens": TOKENS + 5})))
    writer.write(event(b"[DONE]") + b"0\r\n\r\n")
    await writer.drain()


async def serve_connection(reader, writer):
    models = json.dumps({"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "x"}]}).encode()
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            lengths = [int(h.split(b":")[1]) for h in head.split(b"\r\n") if h.lower().startswith(b"content-length")]
            body = await reader.readexactly(lengths[0] if lengths else 0)
            if head.startswith(b"POST"):
                await answer(writer, b"/chat/" in head.split(b"\r\n")[0], b"include_usage" in body)
            else:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(models) + models)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    writer.close()


async def serve():
    s = await asyncio.start_server(serve_connection, "127.0.0.1", 0)
    print(s.sockets[0].getsockname()[1], flush=True)
    await asyncio.sleep(600)


# ---- the tools -----------------------------------------------------------------------------------------------------

TOKENIZER = """
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
t = Tokenizer(models.WordLevel({"[UNK]": 0, "</s>": 1, **{f"w{i}": i + 2 for i in range(64)}}, unk_token="[UNK]"))
t.pre_tokenizer = pre_tokenizers.Whitespace()
PreTrainedTokenizerFast(tokenizer_object=t, unk_token="[UNK]", eos_token="</s>", pad_token="</s>").save_pretrained("tokenizer")
"""


def ms(v):
    return None if v is None else v * 1e3


def guidellm(exe, url, n):
    with open("data.jsonl", "w") as f:
        f.writelines(json.dumps({"prompt": f"w1 w2 w3 w4 w{i % 64}"}) + "\n" for i in range(n))
    yield [exe, "run", "--backend", f"kind=openai_http,target={url},model=m", "--profile", f"kind=concurrent,streams={CONCURRENCY}",
           "--constraint", f"kind=max_requests,count={n}", "--tokenizer", "kind=hf_auto,model=" + os.path.abspath("tokenizer"),
           "--data", "kind=json_file,path=data.jsonl", "--output", "kind=json,path=out.json", "--disable-console"]
    b = json.load(open("out.json"))["benchmarks"][0]["metrics"]
    terms = {"ttft": ("time_to_first_token_ms", 1), "itl": ("inter_token_latency_ms", 1), "tpot": ("time_per_output_token_ms", 1),
             "e2e": ("request_latency", 1e3)}
    yield b["request_totals"]["successful"], b["output_token_count"]["successful"]["total_sum"], {
        k: [b[name]["successful"]["mean"] * f] + [b[name]["successful"]["percentiles"][p] * f for p in ("p50", "p90", "p99")]
        for k, (name, f) in terms.items()}


def aiperf(exe, url, n):
    with open("data.jsonl", "w") as f:
        f.writelines(json.dumps({"text": f"w1 w2 w3 w4 w{i % 64}"}) + "\n" for i in range(n))
    yield [exe, "profile", "--model", "m", "--url", url, "--endpoint-type", "chat", "--streaming", "--concurrency", str(CONCURRENCY),
           "--request-count", str(n), "--tokenizer", os.path.abspath("tokenizer"), "--input-file", "data.jsonl", "--custom-dataset-type",
           "single_turn", "--output-artifact-dir", "out", "--ui", "none", "--use-server-token-count"]
    b = json.load(open("out/profile_export_aiperf.json"))
    terms = {"ttft": "time_to_first_token", "itl": "inter_token_latency", "icl": "inter_chunk_latency", "e2e": "request_latency"}
    yield b["request_count"]["avg"], b["total_output_tokens"]["avg"], {
        k: [b[name][p] for p in ("avg", "p50", "p90", "p99")] for k, name in terms.items() if name in b}


def inference_perf(exe, url, n):
    config = {"api": {"type": "completion", "streaming": True}, "data": {"type": "mock"},
              "load": {"type": "concurrent", "num_workers": 1, "stages": [{"num_requests": n, "concurrency_level": CONCURRENCY}]},
              "server": {"type": "vllm", "model_name": "m", "base_url": url, "ignore_eos": True},
              "tokenizer": {"pretrained_model_name_or_path": os.path.abspath("tokenizer")},
              "report": {"request_lifecycle": {"percentiles": [50, 90, 99], "use_server_output_tokens": True}},
              "storage": {"local_storage": {"path": os.path.abspath("out")}}}
    json.dump(config, open("config.yml", "w")) # JSON is YAML, too
    yield [exe, "--config_file", "config.yml"]
    b = json.load(open("out/summary_lifecycle_metrics.json"))["successes"]
    terms = {"ttft": "time_to_first_token", "itl": "inter_token_latency", "tpot": "time_per_output_token",
             "ntpot": "normalized_time_per_output_token", "e2e": "request_latency"}
    yield b["count"], b["output_len"]["mean"] * b["count"], {
        k: [ms(b["latency"][name][p]) for p in ("mean", "median", "p90", "p99")] for k, name in terms.items() if b["latency"].get(name)}


TOOLS = {"guidellm": guidellm, "aiperf": aiperf, "inference-perf": inference_perf}

# ---- the run -------------------------------------------------------------------------------------------------------


def start_record(binary, port):
    p = subprocess.Popen([binary + "/record", "--passive", "--server", f"127.0.0.1:{port}", "--interface", "lo", "-o", "fx"],
                         stdout=open("record.out", "w"), stderr=subprocess.STDOUT)
    time.sleep(2)
    if p.poll() is not None:
        print(f"cannot capture: {open('record.out').read()}")
        sys.exit(77)
    return p


def compare(tool, wire, got):
    count, tokens, terms = got
    same = wire["exchanges"] - wire["failed"] == count and wire["output_tokens"] == tokens
    print(f"{tool}: {count:g} requests, {tokens:g} tokens; on the wire {wire['exchanges']}, {wire['failed']} failed, "
          f"{wire['output_tokens']} tokens")
    print(f"{'ms':6}{'mean':>22}{'p50':>22}{'p90':>22}{'p99':>22}")
    for key, values in terms.items():
        on_wire = [ms(wire[key][p]) for p in ("mean_s", "p50_s", "p90_s", "p99_s")]
        cells = "".join(f"{w:11.3f} {v - w:+9.3f} " for w, v in zip(on_wire, values))
        print(f"{key:6} {cells}")
    return 0 if same else 1


def main():
    binary, tool, exe = os.path.abspath(sys.argv[1]), sys.argv[2], os.path.abspath(sys.argv[3])
    n = int(sys.argv[4]) if sys.argv[4:] else 200
    if not os.path.exists(exe):
        print(f"missing here: {exe}")
        return 77
    server = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--serve"], stdout=subprocess.PIPE, text=True)
    env = dict(os.environ, HF_HUB_DISABLE_TELEMETRY="1", COLUMNS="200")
    if tool != "aiperf": # with these it looks for a folder of ours in the hub's cache
        env.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
    try:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            port = int(server.stdout.readline())
            subprocess.run([os.path.dirname(exe) + "/python", "-c", TOKENIZER], check=True, env=env)
            steps = TOOLS[tool](exe, f"http://127.0.0.1:{port}", n)
            command = next(steps)
            record = start_record(binary, port)
            with open("tool.out", "w") as out:
                rc = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, env=env, timeout=400).returncode
            time.sleep(1)
            record.send_signal(signal.SIGINT)
            recorded = record.wait(60)
            for what, status, log in (tool, rc, "tool.out"), ("record", recorded, "record.out"):
                if status:
                    print(f"{what} ended with {status}: {open(log).read()[-3000:]}")
                    return 1
            stats = [binary + "/fixture", "stats", "fx", "--metrics-as", tool, "--percentiles", "50,90,99", "--json"]
            wire = json.loads(subprocess.run(stats, check=True, stdout=subprocess.PIPE).stdout)
            return compare(tool, wire, next(steps))
    finally:
        server.kill()
        server.wait()


if sys.argv[1:] == ["--serve"]:
    asyncio.run(serve())
else:
    sys.exit(main())
