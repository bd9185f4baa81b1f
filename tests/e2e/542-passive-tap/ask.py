# ask.py HOST:PORT COUNT [NAME]: three clients at once, each COUNT requests in turn, every other one streamed. NAME: each sends
# this X-Request-Id. PAUSE: seconds of each behind each request.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import sys
import threading
import time
import urllib.request

PROMPTS = "In the beginning", "And the light", "Let there be"


def client(prompt):
    for n in range(int(sys.argv[2])):
        body = {"model": "demo", "prompt": prompt, "max_tokens": 8, "temperature": 0, "stream": n % 2 == 0, "ignore_eos": True}
        if body["stream"]:
            body["stream_options"] = {"include_usage": True}
        head = {"Content-Type": "application/json", **({"X-Request-Id": sys.argv[3]} if sys.argv[3:] else {})}
        urllib.request.urlopen(urllib.request.Request(f"http://{sys.argv[1]}/v1/completions", json.dumps(body).encode(), head)).read()
        time.sleep(float(os.environ.get("PAUSE", 0)))


threads = [threading.Thread(target=client, args=(p,)) for p in PROMPTS]
for t in threads:
    t.start()
for t in threads:
    t.join()
