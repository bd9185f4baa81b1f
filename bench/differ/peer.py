# peer.py BASE NEW - what a user would write in place of differ: read the answers of two fixtures, and count those whose
# token ids differ, the mean distance of their logprobs, and the median time between tokens. It judges nothing.
# SPDX-License-Identifier: Apache-2.0
import io
import json
import statistics
import sys

import zstandard


def answers(folder):
    with open(folder + "/exchanges.jsonl.zst", "rb") as f:
        text = zstandard.ZstdDecompressor().stream_reader(f, read_across_frames=True)
        for line in io.BufferedReader(text, 1 << 20):
            x = json.loads(line)
            if x["phase"] != "warmup":
                yield (x["prompt_id"], x["repeat"], x["phase"]), (x["token_ids"], x["logprobs"], [e[0] for e in x["events"]])


def itl(times):
    return (times[-1] - times[0]) / (len(times) - 1)


base = dict(answers(sys.argv[1]))
forked, apart, ratios, n = 0, [], [], 0
for key, (ids, logprobs, times) in answers(sys.argv[2]):
    old_ids, old_logprobs, old_times = base[key]
    n += 1
    forked += ids != old_ids
    apart.append(statistics.fmean(abs(a - b) for a, b in zip(logprobs, old_logprobs)))
    ratios.append(itl(times) / itl(old_times))
print(f"{n} answers, {forked} differ, logprobs {statistics.fmean(apart):.3g} nats apart, ITL {statistics.median(ratios) - 1:+.1%}")
