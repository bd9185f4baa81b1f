# vllm_client.py - the request function of vLLM's bench serve on an SSE source, as it stands in vLLM's wheel.
# usage: vllm_client.py URL STREAMS EVENTS FILE; FILE: vllm/benchmarks/lib/endpoint_request_func.py; prints as aiohttp_client.py
# SPDX-License-Identifier: Apache-2.0
#
# One session for all streams, as bench serve has it. The function keeps the start, TTFT and the time between two messages: of
# these the times of messages are added up. Needs aiohttp, regex, tqdm. CPU is counted from the first request to the last answer.
import asyncio
import importlib.util
import itertools
import json
import resource
import sys

import aiohttp


async def main():
    url, streams, events = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    spec = importlib.util.spec_from_file_location("endpoint_request_func", sys.argv[4])
    peer = sys.modules["endpoint_request_func"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(peer)
    asked = peer.RequestFuncInput(prompt="a", api_url=url + "/v1/completions", prompt_len=1, output_len=events, model="source")
    connector = aiohttp.TCPConnector(limit=streams, limit_per_host=streams, keepalive_timeout=60)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=6 * 3600)) as session:
        before = resource.getrusage(resource.RUSAGE_SELF)
        got = await asyncio.gather(*(peer.async_request_openai_completions(asked, session) for _ in range(streams)))
        after = resource.getrusage(resource.RUSAGE_SELF)
    times = []
    for o in got:
        if not o.success:
            sys.exit(o.error)
        at = itertools.accumulate(o.itl, initial=o.start_time + o.ttft)
        times.append([[int(t * 1e9), int(text)] for t, text in zip(at, o.generated_text.split())])
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"cpu_s": cpu, "streams": times}))


asyncio.run(main())
