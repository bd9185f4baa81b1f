"""metric_peers.py BIN FAKES VLLM - compare fixture stats with the tools whose terms it speaks.

Exchanges with random times are written as a capture, which record --pcap reads; the tools' own code gets the same bytes at
the same times, and every figure is compared: each exchange's, and the means and percentiles of all. Needs numpy, aiohttp,
regex, tqdm, and the packages guidellm, aiperf and inference-perf; VLLM is the folder vllm/benchmarks of vLLM's wheel, of
which two files are read without the rest. A package that is missing is named, and ends with status 77.
SPDX-License-Identifier: Apache-2.0
"""
import ast
import asyncio
import csv
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import types

BIN, FAKES, VLLM = sys.argv[1:4]
sys.path.insert(0, FAKES)
try:
    import numpy as np
    from packets import Connection, write
    from aiperf.common.models import record_models as aiperf_records
    from aiperf.endpoints.openai_chat import ChatEndpoint
    from aiperf.endpoints.openai_completions import CompletionsEndpoint
    from aiperf.metrics.metric_dicts import MetricRecordDict
    from aiperf.metrics.types import (inter_chunk_latency_metric, inter_token_latency_metric, output_sequence_length_metric,
                                      request_latency_metric, ttft_metric)
    from aiperf.common.exceptions import NoMetricValue
    from guidellm.backends.openai.request_handlers import ChatCompletionsRequestHandler, TextCompletionsRequestHandler
    from guidellm.schemas import GenerativeRequestStats, RequestInfo, RequestTimings, UsageMetrics
    from guidellm.schemas.base.statistics import DistributionSummary
    from inference_perf.apis import streaming_parser
    from inference_perf.apis.base import InferenceInfo, RequestLifecycleMetric, StreamedResponseMetrics
    from inference_perf.config import GoodputConfig
    from inference_perf.payloads import RequestMetrics, Text
    from inference_perf.reportgen import base as inference_perf
except ImportError as e:
    print(f"missing here: {e}")
    sys.exit(77)

EPOCH, N = 1_700_000_000_000_000_000, 300
MS = 1_000_000
PERCENTILES = [50, 90, 95, 99]
LIMITS = {"ttft": 0.12, "tpot": 0.03, "e2e": 0.6}  # s

# ---- exchanges -----------------------------------------------------------------------------------------------------


def event(value):
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"


def message_of(chat, words, reasoning=False, finish=None):
    """A message whose tokens are words, so that a tokenizer that counts words agrees with the server."""
    text = "".join(f" {w}" for w in words)
    if chat:
        choice = {"index": 0, "delta": {"reasoning": text} if reasoning else {"content": text}, "finish_reason": finish}
        if words and not reasoning:
            choice["logprobs"] = {"content": [{"token": f" {w}", "logprob": -1.0} for w in words]}
        return event({"object": "chat.completion.chunk", "choices": [choice]})
    choice = {"index": 0, "text": text, "finish_reason": finish}
    if words:
        choice["logprobs"] = {"tokens": [f" {w}" for w in words], "token_logprobs": [-1.0] * len(words)}
    return event({"object": "text_completion", "choices": [choice]})


def make_exchange(rng, number):
    """Times in ns after EPOCH: the request, then what is read when."""
    chat, start = rng.random() < 0.5, number * 40 * MS + rng.randrange(MS)
    t = start + rng.randrange(5 * MS, 200 * MS)
    reads, tokens = [], 0
    if chat:
        reads.append((t, event({"object": "chat.completion.chunk",
                                "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})))
        t += rng.randrange(1, 30 * MS)
    n = rng.choice([1, 2, 3, 8, 20])
    for i in range(n):
        words = [f"w{rng.randrange(1000)}" for _ in range(rng.choice([1, 1, 1, 2, 4]))]
        last = "stop" if i == n - 1 and rng.random() < 0.5 else None
        data = message_of(chat, words, reasoning=rng.random() < 0.1 and n > 1, finish=last)
        if rng.random() < 0.1:  # no text: an end, or a glyph that is not complete
            data += message_of(chat, [])
        reads.append((t, data))
        tokens += len(words)
        t += rng.randrange(MS // 10, 60 * MS)
    if rng.random() < 0.5:
        reads.append((t, message_of(chat, [], finish="stop")))
        t += rng.randrange(MS)
    prompt = rng.randrange(1, 100)
    reads.append((t, event({"object": "chat.completion.chunk" if chat else "text_completion", "choices": [],
                            "usage": {"prompt_tokens": prompt, "completion_tokens": tokens}})))
    t += rng.randrange(MS)
    reads.append((t, event(b"[DONE]")))
    return {"chat": chat, "start": start, "reads": reads, "end": t, "tokens": tokens, "prompt": prompt}


def write_capture(exchanges, path):
    packets = []
    for i, x in enumerate(exchanges):
        c = Connection(port=20000 + i)
        new = [(x["start"] - 1000, p) for p in c.open()]
        new += [(x["start"], p) for p in c.request("hello", path="/v1/chat/completions" if x["chat"] else "/v1/completions",
                                                    stream=True)]
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        for j, (t, data) in enumerate(x["reads"]):
            data = (head if j == 0 else b"") + b"%x\r\n%s\r\n" % (len(data), data)
            new += [(t, p) for p in c.send(False, data + (b"0\r\n\r\n" if j == len(x["reads"]) - 1 else b""), size=60000)]
        new += [(x["end"] + MS, p) for p in c.close()]
        for t, p in new:
            p.time_ns = EPOCH + t
            packets.append(p)
    packets.sort(key=lambda p: p.time_ns)
    write(path, packets, form="nanoseconds")


def ours(fixture, tool, limits):
    """The report, and a row for each exchange in order of its start."""
    rows = fixture + ".csv"
    text = subprocess.run([os.path.join(BIN, "fixture"), "stats", fixture, "--metrics-as", tool, "--json", "--csv", rows, "--goodput",
                           ",".join(f"{k}:{v * 1000}ms" for k, v in limits.items())],
                          check=True, capture_output=True, text=True).stdout
    return json.loads(text), sorted(csv.DictReader(open(rows)), key=lambda r: float(r["start_s"]))


# ---- the comparison ------------------------------------------------------------------------------------------------

compared = differ = 0


def check(what, a, b, tolerance=2e-9):
    """Seconds: the file has nanoseconds; CSV has picoseconds of them at most."""
    global compared, differ
    compared += 1
    if (a is None) != (b is None) or (a is not None and abs(a - b) > tolerance * max(1, abs(b))):
        differ += 1
        if differ <= 20:
            print(f"{what}: ours {a}, theirs {b}")


def check_spread(what, ours_of, theirs):
    check(what + " n", ours_of["n"], len(theirs))
    check(what + " mean", ours_of["mean_s"], float(np.mean(theirs)))
    check(what + " std", ours_of["std_s"], float(np.std(theirs)))
    for p in PERCENTILES:
        check(f"{what} p{p}", ours_of[f"p{p}_s"], float(np.percentile(theirs, p)))


def cell(row, key):
    return float(row[key + "_ms"]) / 1e3 if row[key + "_ms"] else None


def seconds(ns):
    return ns / 1e9


class Clock:
    """Stands for the module `time`."""
    now = 0.0

    def perf_counter(self):
        return self.now


class Response:
    """Stands for aiohttp's response: each read comes at its time."""
    status, reason = 200, "OK"

    def __init__(self, clock, x):
        self.clock, self.x, self.content = clock, x, self

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        return False

    async def iter_any(self):
        for t, data in self.x["reads"]:
            self.clock.now = seconds(t)
            yield data


# ---- vLLM ----------------------------------------------------------------------------------------------------------


def load_vllm():
    spec = importlib.util.spec_from_file_location("endpoint_request_func", os.path.join(VLLM, "lib/endpoint_request_func.py"))
    client = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = client
    spec.loader.exec_module(client)
    # of serve.py the figures alone: its imports want all of vLLM
    tree = ast.parse(open(os.path.join(VLLM, "serve.py")).read())
    wanted = ("BenchmarkMetrics", "calculate_metrics", "MILLISECONDS_TO_SECONDS_CONVERSION", "parse_goodput")
    body = [n for n in tree.body if getattr(n, "name", None) in wanted or
            (isinstance(n, ast.Assign) and getattr(n.targets[0], "id", None) in wanted)]
    module = ast.Module(body=[ast.ImportFrom("__future__", [ast.alias("annotations")], 0)] + body, type_ignores=[])
    import dataclasses
    import warnings
    names = {"np": np, "dataclass": dataclasses.dataclass, "warnings": warnings, "TERM_PLOTLIB_AVAILABLE": False, "__name__": "serve"}
    sys.modules["serve"] = types.ModuleType("serve")
    exec(compile(ast.fix_missing_locations(module), "serve.py", "exec"), names)
    return client, names["calculate_metrics"]


def compare_vllm(exchanges, fixture):
    client, calculate = load_vllm()
    client.time = clock = Clock()
    outputs = []
    for x in exchanges:
        clock.now = seconds(x["start"])
        session = types.SimpleNamespace(post=lambda x=x, **_: Response(clock, x))
        request = client.RequestFuncInput(prompt="hello", api_url="http://a/v1/chat/completions" if x["chat"] else
                                          "http://a/v1/completions", prompt_len=1, output_len=1, model="m")
        func = client.async_request_openai_chat_completions if x["chat"] else client.async_request_openai_completions
        outputs.append(asyncio.run(func(request, session)))
    duration = seconds(max(x["end"] for x in exchanges) - min(x["start"] for x in exchanges))
    with open(os.devnull, "w") as sink:
        out, sys.stdout = sys.stdout, sink
        m, lens = calculate([], outputs, duration, None, PERCENTILES, {k.replace("e2e", "e2el"): v * 1e3 for k, v in LIMITS.items()})
        sys.stdout = out
    report, rows = ours(fixture, "vllm", LIMITS)
    for o, row in zip(outputs, rows):
        check("vllm ttft", cell(row, "ttft"), o.ttft)
        check("vllm e2el", cell(row, "e2e"), o.latency)
        check("vllm itl", cell(row, "itl"), float(np.mean(o.itl)) if o.itl else None)
    result = fixture + ".json"
    subprocess.run([os.path.join(BIN, "fixture"), "stats", fixture, "--save-result", result, "--save-detailed", "--goodput",
                    "ttft:120,tpot:30,e2el:600"], check=True, stdout=subprocess.DEVNULL)
    mine = json.load(open(result))
    for name in ("completed", "failed", "request_throughput", "request_goodput", "output_throughput", "total_token_throughput",
                 "max_output_tokens_per_s", "max_concurrent_requests", "rtfx"):
        check("vllm " + name, mine[name], getattr(m, name))
    check("vllm total_input_tokens", mine["total_input_tokens"], m.total_input)
    check("vllm total_output_tokens", mine["total_output_tokens"], m.total_output)
    for t in ("ttft", "tpot", "itl", "e2el"):
        for kind in ("mean", "median", "std"):
            check(f"vllm {kind}_{t}_ms", mine[f"{kind}_{t}_ms"], float(getattr(m, f"{kind}_{t}_ms")), 1e-6)
        for p, v in getattr(m, f"percentiles_{t}_ms"):
            check(f"vllm p{p}_{t}_ms", mine[f"p{p}_{t}_ms"], float(v), 1e-6)
    for i, (o, n) in enumerate(zip(outputs, lens)):
        check("vllm ttfts", mine["ttfts"][i], o.ttft)
        check("vllm itls", len(mine["itls"][i]), len(o.itl))
        check("vllm output_lens", mine["output_lens"][i], n)
        check("vllm generated_texts", mine["generated_texts"][i] == o.generated_text, True)


# ---- GuideLLM ------------------------------------------------------------------------------------------------------


def guidellm_stats(x):
    """Its handlers tell which lines count; the loop is that of backends/openai/http.py."""
    handler = (ChatCompletionsRequestHandler if x["chat"] else TextCompletionsRequestHandler)()
    t = RequestTimings(request_start=seconds(x["start"]), resolve_end=seconds(x["end"]), request_end=seconds(x["end"]))
    for at, data in x["reads"]:
        for line in data.decode().split("\n"):
            n = handler.add_streaming_line(line) if line.strip() else 0
            if n:
                t.first_token_iteration = t.first_token_iteration or seconds(at)
                t.last_token_iteration = seconds(at)
                t.token_iterations += n
    usage = handler.streaming_usage
    return GenerativeRequestStats(request_id="r", info=RequestInfo(timings=t),
                                  input_metrics=UsageMetrics(text_tokens=usage["prompt_tokens"]),
                                  output_metrics=UsageMetrics(text_tokens=usage["completion_tokens"]))


def compare_guidellm(exchanges, fixture):
    stats = [guidellm_stats(x) for x in exchanges]
    report, rows = ours(fixture, "guidellm", LIMITS)
    for s, row in zip(stats, rows):
        for key, theirs in (("ttft", s.time_to_first_token_ms), ("tpot", s.time_per_output_token_ms), ("itl", s.inter_token_latency_ms),
                            ("e2e", s.request_latency * 1e3)):
            check("guidellm " + key, cell(row, key), None if theirs is None else theirs / 1e3)
    values = {"ttft": [s.time_to_first_token_ms or 0.0 for s in stats], "e2e": [s.request_latency * 1e3 for s in stats],
              "tpot": [(s.time_per_output_token_ms or 0.0, s.output_tokens or 0.0) for s in stats],
              "itl": [(s.inter_token_latency_ms or 0.0, (s.output_tokens or 1.0) - 1.0) for s in stats]}
    for key, v in values.items():
        theirs = DistributionSummary.from_values(v)
        check(f"guidellm {key} mean", report[key]["mean_s"], theirs.mean / 1e3)
        check(f"guidellm {key} std", report[key]["std_s"], theirs.std_dev / 1e3)
        for p in PERCENTILES:
            check(f"guidellm {key} p{p}", report[key][f"p{p}_s"], getattr(theirs.percentiles, f"p{p}") / 1e3)
    from guidellm.schemas.benchmark.goodput import GoodputSLO
    slo = GoodputSLO(ttft_ms=LIMITS["ttft"] * 1e3, tpot_ms=LIMITS["tpot"] * 1e3, e2el_ms=LIMITS["e2e"] * 1e3)
    kept = [slo.is_conforming(ttft_ms=s.time_to_first_token_ms, tpot_ms=s.inter_token_latency_ms, e2el_ms=s.request_latency * 1e3)
            for s in stats]
    check("guidellm good", report["goodput"]["good"], sum(k is True for k in kept))
    check("guidellm judged", report["goodput"]["judged"], sum(k is not None for k in kept))


# ---- AIPerf --------------------------------------------------------------------------------------------------------


def aiperf_record(x):
    """Its endpoints parse each message; tokens are the server's, as with use_server_token_count."""
    endpoint = object.__new__(ChatEndpoint if x["chat"] else CompletionsEndpoint)
    endpoint.debug = lambda *_: None
    parsed = []
    for t, data in x["reads"]:
        for raw in data.decode().split("\n\n"):
            if raw and raw != "data: [DONE]":
                parsed.append(endpoint.parse_response(aiperf_records.SSEMessage.parse(raw, t)))
    request = aiperf_records.RequestRecord(start_perf_ns=x["start"], end_perf_ns=x["end"], status=200)
    return aiperf_records.ParsedResponseRecord(request=request, responses=[p for p in parsed if p],
                                               token_counts=aiperf_records.TokenCounts(output=x["tokens"]))


def aiperf_values(record):
    out = MetricRecordDict()
    for metric in (output_sequence_length_metric.OutputSequenceLengthMetric, ttft_metric.TTFTMetric,
                   request_latency_metric.RequestLatencyMetric, inter_token_latency_metric.InterTokenLatencyMetric,
                   inter_chunk_latency_metric.InterChunkLatencyMetric):
        try:
            out[metric.tag] = metric().parse_record(record, out)
        except NoMetricValue:
            pass
    return out


def compare_aiperf(exchanges, fixture):
    limits = {"ttft": LIMITS["ttft"], "itl": LIMITS["tpot"], "e2e": LIMITS["e2e"]}
    report, rows = ours(fixture, "aiperf", limits)
    names = {"ttft": "time_to_first_token", "itl": "inter_token_latency", "e2e": "request_latency"}
    all_of, chunks, good = {k: [] for k in names}, [], 0
    for x, row in zip(exchanges, rows):
        v = aiperf_values(aiperf_record(x))
        for key, name in names.items():
            check("aiperf " + key, cell(row, key), v[name] / 1e9 if name in v else None)
            all_of[key] += [v[name] / 1e9] if name in v else []
        chunks += [c / 1e9 for c in v.get("inter_chunk_latency", [])]
        good += all(names[k] in v and v[names[k]] <= limit * 1e9 for k, limit in limits.items())
    for key, v in all_of.items():
        check_spread("aiperf " + key, report[key], v)
    check_spread("aiperf icl", report["icl"], chunks)
    check("aiperf good", report["goodput"]["good"], good)


# ---- inference-perf ------------------------------------------------------------------------------------------------


class Words:
    """A tokenizer: a word is a token, as it is for our server."""

    def count_tokens(self, text, add_special_tokens=True):
        return len(text.split())


def inference_perf_metric(clock, x):
    get = (lambda d: d.get("choices", [{}])[0].get("delta", {}).get("content")) if x["chat"] else \
        (lambda d: d.get("choices", [{}])[0].get("text"))
    text, times, _, chunks, usage = asyncio.run(streaming_parser.parse_sse_stream(Response(clock, x), get))
    response = StreamedResponseMetrics(response_chunks=chunks, chunk_times=times, output_tokens=Words().count_tokens(text),
                                       output_token_times=times, server_usage=usage)
    return RequestLifecycleMetric(scheduled_time=seconds(x["start"]), start_time=seconds(x["start"]), end_time=seconds(x["end"]),
                                  request_data="", error=None,
                                  info=InferenceInfo(request_metrics=RequestMetrics(text=Text(input_tokens=usage["prompt_tokens"])),
                                                     response_metrics=response))


def compare_inference_perf(exchanges, fixture):
    streaming_parser.time = clock = Clock()
    metrics = [inference_perf_metric(clock, x) for x in exchanges]
    goodput = GoodputConfig(constraints={"ttft": LIMITS["ttft"], "tpot": LIMITS["tpot"], "request_latency": LIMITS["e2e"]})
    theirs = inference_perf.summarize_requests(metrics, PERCENTILES, goodput_config=goodput, tokenizer=Words(),
                                                use_server_output_tokens=True).successes
    report, rows = ours(fixture, "inference-perf", LIMITS)
    for m, row in zip(metrics, rows):
        v = inference_perf.compute_request_latency_metrics(m, use_server_output_tokens=True)
        for key, name in (("ttft", "time_to_first_token"), ("tpot", "time_per_output_token"), ("itl", "inter_token_latency"),
                          ("ntpot", "normalized_time_per_output_token"), ("e2e", "request_latency")):
            check("inference-perf " + key, cell(row, key), v[name])
    for key, name in (("ttft", "time_to_first_token"), ("tpot", "time_per_output_token"), ("itl", "inter_token_latency"),
                      ("ntpot", "normalized_time_per_output_token"), ("e2e", "request_latency")):
        summary = theirs["latency"][name]
        check(f"inference-perf {key} mean", report[key]["mean_s"], summary["mean"])
        for p in PERCENTILES:
            check(f"inference-perf {key} p{p}", report[key][f"p{p}_s"], summary["median" if p == 50 else f"p{p}"])
    rates, good = theirs["throughput"], theirs["goodput_metrics"]
    check("inference-perf requests/s", report["requests_per_s"], rates["requests_per_sec"])
    check("inference-perf output tokens/s", report["output_tokens_per_s"], rates["output_tokens_per_sec"])
    check("inference-perf tokens/s", report["tokens_per_s"], rates["total_tokens_per_sec"])
    check("inference-perf good", report["goodput"]["good"], good["good_requests"])
    check("inference-perf goodput", report["goodput"]["requests_per_s"], good["request_goodput"])


def main():
    global compared, differ
    rng = random.Random(22)
    exchanges = [make_exchange(rng, i) for i in range(N)]
    with tempfile.TemporaryDirectory() as folder:
        capture, fixture = os.path.join(folder, "x.pcap"), os.path.join(folder, "fx")
        write_capture(exchanges, capture)
        subprocess.run([os.path.join(BIN, "record"), "--pcap", capture, "-o", fixture, "-q"], check=True, stdout=subprocess.DEVNULL)
        bad = 0
        for name, compare in (("vllm", compare_vllm), ("guidellm", compare_guidellm), ("aiperf", compare_aiperf),
                              ("inference-perf", compare_inference_perf)):
            compared = differ = 0
            compare(exchanges, fixture)
            print(f"{name}: {compared} figures of {N} exchanges compared, {differ} differ")
            bad += differ
    return bad > 0


sys.exit(main())
