"""ask_others.py HOST:PORT COUNT [MODEL] - requests of a plain client, one after the other, to a server that others listen to.

Completions and chats in turn, streamed but for every third, under a model's name that is made up. With MODEL, completions alone,
for that model: a server may refuse others, and have no template for chats. They ask for the count of tokens, without which nobody
knows how many rows a prompt has.
SPDX-License-Identifier: Apache-2.0
"""
import json
import sys
import time
import urllib.error
import urllib.request


def ask(request):
    """The whole answer. A server that cannot be reached yet, or says 503, is still loading its model."""
    for _ in range(600):
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.read()
        except urllib.error.HTTPError as e:
            if e.code != 503:
                raise
        except urllib.error.URLError:
            pass
        time.sleep(0.2)
    sys.exit("the model does not get loaded")


model = sys.argv[3] if len(sys.argv) > 3 else None
for n in range(int(sys.argv[2])):
    body = {"model": model or "gpt-4o-mini", "max_tokens": 8, "temperature": 0, "stream": n % 3 != 2}
    if model and body["stream"]:
        body["stream_options"] = {"include_usage": True}
    text = f"{n + 1} and {n + 2} are"
    if n % 2 and not model:
        path, body["messages"] = "/v1/chat/completions", [{"role": "user", "content": text}]
    else:
        path, body["prompt"] = "/v1/completions", text
    request = urllib.request.Request(f"http://{sys.argv[1]}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    ask(request)
