# aiohttp_client.py - a client of an SSE source, in Python, that parses as vLLM's bench serve does.
# usage: aiohttp_client.py URL STREAMS EVENTS [uvloop]; prints a JSON object: CPU seconds, and the times of each stream
# SPDX-License-Identifier: Apache-2.0
#
# One process and one session for all streams. Of each piece that arrives the text is decoded and cut at empty lines, each
# event is read as JSON, and only then is the time taken. CPU is counted from the first request to the last answer, so that
# starting Python and importing count as nothing.
import asyncio
import codecs
import json
import resource
import sys
import time

import aiohttp


async def one(session, url, events):
    body = json.dumps({"model": "source", "prompt": "a", "max_tokens": events, "stream": True}, separators=(",", ":"))
    times, buffer, decode = [], "", codecs.getincrementaldecoder("utf-8")().decode
    async with session.post(url + "/v1/completions", data=body, headers={"Content-Type": "application/json"}) as response:
        async for piece in response.content.iter_any():
            buffer += decode(piece)
            while "\n\n" in buffer:
                message, buffer = buffer.split("\n\n", 1)
                message = message.strip().removeprefix("data: ")
                if not message or message == "[DONE]":
                    continue
                data = json.loads(message)
                now = time.perf_counter_ns()  # CLOCK_MONOTONIC on Linux
                if data.get("choices") and data["choices"][0].get("text"):
                    times.append((now, data["choices"][0]["text"]))
    return times


async def main():
    url, streams, events = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    connector = aiohttp.TCPConnector(limit=streams, limit_per_host=streams, keepalive_timeout=60)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=6 * 3600)) as session:
        before = resource.getrusage(resource.RUSAGE_SELF)
        all_times = await asyncio.gather(*(one(session, url, events) for _ in range(streams)))
        after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"cpu_s": cpu, "streams": [[[at, int(text)] for at, text in t] for t in all_times]}))


if sys.argv[4:] == ["uvloop"]:  # as AIPerf has it
    import uvloop
    uvloop.install()
asyncio.run(main())
