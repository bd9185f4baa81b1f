# tools.py - load tools as whole programs on the SSE source: vllm bench serve, GuideLLM, AIPerf.
# SPDX-License-Identifier: Apache-2.0
#
# A tool is a generator, run in a folder of its own with `prompts.jsonl`, beside the folder `tokenizer`. It yields its command,
# and after the command has ended a dict:
#   counts   the events that the tool counted in each answer
#   told     the median and the 99th percentile that it reports of ITL and, where it has the term, of ICL (each gap), in ms
#   streams  as the other clients have it, where the tool kept each text and its time
# No hub is asked: the tokenizer is made by the Python beside the executable. GuideLLM runs with one worker, not ten: all have
# one core here, and each worker imports the whole of GuideLLM.
import ctypes
import itertools
import json
import os
import shutil
import signal
import subprocess
import time

LIMIT_S = 600
TOKENIZER = """
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
t = Tokenizer(models.WordLevel({"[UNK]": 0, "</s>": 1, "a": 2}, unk_token="[UNK]"))
t.pre_tokenizer = pre_tokenizers.Whitespace()
PreTrainedTokenizerFast(tokenizer_object=t, unk_token="[UNK]", eos_token="</s>", pad_token="</s>").save_pretrained("tokenizer")
"""


def vllm_bench(exe, url, streams, events):
    yield [exe, "bench", "serve", "--backend", "openai", "--base-url", url, "--endpoint", "/v1/completions", "--model", "source",
           "--tokenizer", os.path.abspath("../tokenizer"), "--dataset-name", "custom", "--dataset-path", "prompts.jsonl",
           "--custom-output-len", str(events), "--skip-chat-template", "--num-prompts", str(streams), "--max-concurrency",
           str(streams), "--disable-tqdm", "--save-result", "--save-detailed", "--result-filename", "out.json"]
    b = json.load(open("out.json"))
    times = []
    for start, ttft, itls, text in zip(b["start_times"], b["ttfts"], b["itls"], b["generated_texts"]):
        at = itertools.accumulate(itls, initial=start + ttft)
        times.append([[int(t * 1e9), int(sent)] for t, sent in zip(at, text.split())])
    yield {"counts": [len(itls) for itls in b["itls"]],  # gaps; there is one before the message of the end, too
           "told": {"ITL": [b["median_itl_ms"], b["p99_itl_ms"]]}, "streams": times}


def guidellm(exe, url, streams, events):
    yield [exe, "run", "--backend", f"kind=openai_http,target={url},model=source,request_format=/v1/completions,max_tokens={events},"
           "validate_backend=false", "--profile", f"kind=concurrent,streams={streams}", "--constraint",
           f"kind=max_requests,count={streams}", "--tokenizer", "kind=hf_auto,model=" + os.path.abspath("../tokenizer"),
           "--data", "kind=json_file,path=prompts.jsonl", "--output", "kind=json,path=out.json", "--disable-console"]
    b = json.load(open("out.json"))["benchmarks"][0]
    itl = b["metrics"]["inter_token_latency_ms"]["successful"]["percentiles"]
    yield {"counts": [r["info"]["timings"]["token_iterations"] for r in b["requests"]["successful"]],
           "told": {"ITL": [itl["p50"], itl["p99"]]}}


def aiperf(exe, url, streams, events):
    yield [exe, "profile", "--model", "source", "--url", url, "--endpoint-type", "completions", "--streaming", "--concurrency", str(streams),
           "--request-count", str(streams), "--tokenizer", os.path.abspath("../tokenizer"), "--input-file", "prompts.jsonl",
           "--custom-dataset-type", "single_turn", "--output-artifact-dir", "out", "--ui", "none", "--use-server-token-count",
           "--extra-inputs", f"max_tokens:{events}"]
    b = json.load(open("out/profile_export_aiperf.json"))
    gaps = [json.loads(line)["metrics"]["inter_chunk_latency"]["value"] for line in open("out/profile_export.jsonl")]
    yield {"counts": [len(g) + 1 for g in gaps],
           "told": {term: [b[name]["p50"], b[name]["p99"]] for term, name in (("ITL", "inter_token_latency"), ("ICL", "inter_chunk_latency"))}}


TOOLS = {"vllm-bench": (vllm_bench, "VLLM_BENCH"), "guidellm": (guidellm, "GUIDELLM"), "aiperf": (aiperf, "AIPERF")}


def given():
    """Name and executable of each tool that the environment names; the others are named on standard output."""
    found = {name: os.path.abspath(os.environ[variable]) for name, (_, variable) in TOOLS.items() if os.environ.get(variable)}
    for name, (_, variable) in TOOLS.items():
        if name in found and not os.access(found[name], os.X_OK):
            raise SystemExit(f"{variable}: {found[name]} is no executable")
        if name not in found:
            print(f"left out: {name} ({variable}=… names no executable)")
    return found


def environment(name):
    env = dict(os.environ, HF_HUB_DISABLE_TELEMETRY="1", GUIDELLM__MAX_WORKER_PROCESSES="1", VLLM_NO_USAGE_STATS="1", DO_NOT_TRACK="1")
    if name != "aiperf":  # with these it looks for a folder of ours in the hub's cache
        env.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
    return env


def adopt_orphans():
    """Make processes whose parent has ended children of this one, so that it can wait for them (PR_SET_CHILD_SUBREAPER)."""
    if ctypes.CDLL(None).prctl(36, 1, 0, 0, 0):
        raise SystemExit("prctl: cannot become the parent of orphans")


def whole(command, env):
    """Exit status of the command, after all of its processes have ended."""
    with open("log", "w") as log:
        p = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=env, start_new_session=True)
        try:
            status = p.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            status = p.wait()
        end_all(p.pid)
    return status


def end_all(group):
    """Wait for all processes of the group, so that their CPU counts as this process's children's; none may outlive its tool."""
    limit = time.monotonic() + 20
    try:
        while True:
            os.waitpid(-group, os.WNOHANG)
            if time.monotonic() > limit:
                os.killpg(group, signal.SIGKILL)
            time.sleep(0.01)
    except ChildProcessError:
        pass


def run(name, exe, url, streams, events, cpu, folder, measured):
    """What the tool counted and told, and its CPU. measured(f) runs f and returns its value and the CPU seconds of the
    processes that ended meanwhile."""
    adopt_orphans()
    here, env = os.getcwd(), environment(name)
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    try:
        if not os.path.exists("tokenizer"):
            subprocess.run([os.path.dirname(exe) + "/python", "-c", TOKENIZER], check=True, env=dict(env, TRANSFORMERS_VERBOSITY="error"))
        shutil.rmtree("run", ignore_errors=True)
        os.mkdir("run")
        os.chdir("run")
        with open("prompts.jsonl", "w") as f:
            f.writelines(json.dumps({"text" if name == "aiperf" else "prompt": "a"}) + "\n" for _ in range(streams))
        steps = TOOLS[name][0](exe, url, streams, events)
        command = ["taskset", "-c", cpu, *next(steps)]
        status, cpu_s = measured(lambda: whole(command, env))
        if status:
            raise SystemExit(f"{name} ended with {status}: {open('log', errors='replace').read()[-3000:]}")
        return dict(next(steps), cpu_s=cpu_s)
    finally:
        os.chdir(here)
