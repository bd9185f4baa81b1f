# make.py HOST:PORT ANSWERS - ask a llama.cpp server a few things, as its users do, while somebody else captures. Writes what
# this client itself received, a line a request: it parses the answers on its own. The golden capture was made so:
#   llama-server -m model.gguf --alias smollm2 --host 127.0.0.1 --port 8080 -t 1 -c 2048 -np 2 --no-webui &
#   tcpdump -i lo -s 0 --time-stamp-precision=nano -w traffic.pcap tcp port 8080 &
#   python3 make.py 127.0.0.1:8080 answers.jsonl
# SPDX-License-Identifier: Apache-2.0
import http.client
import json
import sys
import threading

HOST, PORT = sys.argv[1].split(":")
GREEDY = {"temperature": 0, "seed": 7}
received, lock = [], threading.Lock()


def pieces(body, streamed):
    """The JSON documents of an answer."""
    if not streamed:
        return [json.loads(body)]
    return [json.loads(line[6:]) for line in body.split(b"\n") if line.startswith(b"data: ") and line != b"data: [DONE]"]


def text_of(doc):
    if "content" in doc:
        return doc["content"]
    return "".join((c.get("text") or (c.get("delta") or c.get("message") or {}).get("content") or "") for c in doc.get("choices", []))


def ask(path, body, connection=None, method="POST"):
    c = connection or http.client.HTTPConnection(HOST, int(PORT))
    c.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"} if body else {})
    r = c.getresponse()
    answer = r.read()
    if connection is None:
        c.close()
    if method != "POST" or path == "/tokenize":
        return
    docs = pieces(answer, body.get("stream", False) and r.status == 200)
    usage = next((d["usage"] for d in docs[::-1] if d.get("usage")), None) or \
        next(({"prompt_tokens": d["tokens_evaluated"], "completion_tokens": d["tokens_predicted"]} for d in docs[::-1] if "tokens_predicted" in d), {})
    with lock:
        received.append({"path": path, "status": r.status, "text": "".join(map(text_of, docs)), "events": len(docs),
                         "prompt_tokens": usage.get("prompt_tokens"), "completion_tokens": usage.get("completion_tokens")})


def chat(words, **more):
    return {"messages": [{"role": "user", "content": words}], "max_tokens": 16, **GREEDY, **more}


kept = http.client.HTTPConnection(HOST, int(PORT))  # one connection for several requests; behind a stream this server closes it
ask("/health", None, kept, "GET")
ask("/v1/chat/completions", chat("Name a colour."), kept)
ask("/tokenize", {"content": "Name a colour."}, kept)
ask("/v1/completions", {"prompt": "The capital of France is", "max_tokens": 12, "logprobs": 2, **GREEDY}, kept)
ask("/v1/chat/completions", chat("Name a colour.", stream=True, stream_options={"include_usage": True}), kept)
kept.close()
ask("/completion", {"prompt": "1, 2, 3,", "n_predict": 10, "stream": True, "n_probs": 2, **GREEDY})
two = [threading.Thread(target=ask, args=("/v1/chat/completions", chat(w, stream=True))) for w in ("Count to five.", "Write 日本 in English.")]
for t in two:
    t.start()
for t in two:
    t.join()
ask("/v1/completions", {"prompt": "word " * 4000, "max_tokens": 4, "stream": True, **GREEDY})  # longer than the context
with open(sys.argv[2], "w") as f:
    for r in received:
        f.write(json.dumps(r, ensure_ascii=False) + "\n")
