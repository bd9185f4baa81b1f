"""check.py - ask a running demo server what reference.json (torch, demo/model/gptq.py) knows, in several ways.

usage: check.py PORT REFERENCE CHECKPOINT-NAME      SPDX-License-Identifier: Apache-2.0
Prints what must be equal to the letter; distances go to stderr. Standard library only."""
import http.client
import json
import sys
import threading

TOLERANCE = 0.03  # of a log-probability. Both sides round GEMM inputs and outputs to f16; honest builds were 0.003 to 0.017 away,
#                   the planted bugs truncate and scale_1pct 0.04
port, reference, name = int(sys.argv[1]), json.load(open(sys.argv[2])), sys.argv[3]
worst, failed = 0.0, False


def fail(*what):
    global failed
    failed = True
    print("FAIL", *what)


def post(path, **body):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    c.request("POST", path, json.dumps(body), {"Content-Type": "application/json", "X-Request-Id": "e2e"})
    r = c.getresponse()
    return r.status, r.read().decode()


def generate(prompt, n, stream=False):
    """-> ids, text, [{id: logprob}]"""
    status, body = post("/v1/completions", prompt=prompt, max_tokens=n, temperature=0, ignore_eos=True, logprobs=5, stream=stream,
                        return_token_ids=True, return_tokens_as_token_ids=True)
    if status != 200:
        return fail(status, body) or ([], "", [{}])
    if stream:
        assert body.endswith("data: [DONE]\n\n"), body[-100:]
        parts = [json.loads(e[6:])["choices"][0] for e in body.split("\n\n")[:-2]]
        assert parts[0]["prompt_token_ids"] is not None and parts[-1]["finish_reason"] == "length"
    else:
        parts = [json.loads(body)["choices"][0]]
    tops = [{int(k.split(":")[1]): v for k, v in t.items()} for p in parts for t in p["logprobs"]["top_logprobs"]]
    return [i for p in parts for i in p["token_ids"]], "".join(p["text"] for p in parts), tops


def compare_top5(got, want, where):
    global worst
    for i, v in want:
        distance = abs(got[i] - v) if i in got else 9.0
        if i not in got and v < min(got.values()) + TOLERANCE:
            continue  # the fifth and the sixth changed places
        worst = max(worst, distance)
        if not distance <= TOLERANCE:
            fail(where, "token", i, "torch", v, "server", got.get(i))


def compare_ids(ids, tops, want, where):
    """Equal, or the first difference is a tie within rounding."""
    for n, (a, b) in enumerate(zip(ids, want)):
        if a != b:
            gap = tops[n][a] - tops[n].get(b, -9)
            print(f"{where}: fork at {n}, top-2 gap {gap:.4f}", file=sys.stderr)
            if not gap <= TOLERANCE:
                fail(where, "fork at", n, "gap", gap)
            return


alone = []
for case in reference[name]:
    where = repr(case["prompt"][:20])
    ids, text, tops = generate(case["prompt_token_ids"], 32)
    compare_ids(ids, tops, case["token_ids"], where)
    compare_top5(tops[0], case["top5_last"], where + " last")
    compare_top5(generate(case["prompt_token_ids"][:1], 1)[2][0], case["top5_first"], where + " first")
    if json.loads(post("/tokenize", prompt=case["prompt"])[1])["tokens"] != case["prompt_token_ids"]:
        fail(where, "tokenize")
    alone.append((ids, text, tops))
print(f"{len(alone)} prompts: tokens and log-probabilities are torch's")
print("largest distance of a log-probability", worst, file=sys.stderr)

for repeat in range(2):  # all at once, streamed: nothing may change, not even a bit
    together = [None] * len(alone)

    def run(i):
        together[i] = generate(reference[name][i]["prompt"], 32, stream=True)
    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(alone))]
    [t.start() for t in threads]
    [t.join() for t in threads]
    for i, (a, b) in enumerate(zip(alone, together)):
        if a != b:
            fail("prompt", i, "streamed among others differs from alone and whole")
print("streamed, all at once: bit-identical to alone")
sys.exit(failed)
