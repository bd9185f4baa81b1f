# check.py - check what the tap recorded against the checkpoint's own bytes; uses no code of Tapedeck.
# usage: check.py EXPORTED-FIXTURE CHECKPOINT
# SPDX-License-Identifier: Apache-2.0
import collections, json, random, struct, sys

fixture, checkpoint = sys.argv[1:]
random.seed(3)


def safetensors(path):
    raw = open(path, "rb").read()
    n = struct.unpack_from("<Q", raw)[0]
    head = json.loads(raw[8:8 + n])
    return {k: raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]] for k, v in head.items() if k != "__metadata__"}


def rows(name):
    return [json.loads(line) for line in open(f"{fixture}/{name}")]


model = safetensors(checkpoint + "/model.safetensors")
manifest = json.load(open(fixture + "/manifest.json"))
ops, steps, exchanges = rows("ops.jsonl"), rows("steps.jsonl"), rows("exchanges.jsonl")
sums = manifest["ledger"]
count = lambda name: sums.get(name, {"n": 0})["n"]
for what in "ops", "steps":
    assert count(f"{what}.seen") == count(f"{what}.kept") + sum(v["n"] for k, v in sums.items() if k.startswith(f"{what}.dropped.")), what
    assert count(f"{what}.seen") == count(f"{what}.kept") == len(ops if what == "ops" else steps), what
print("ledger balances, nothing dropped")

layers = sorted({k[:-len(".qweight")] for k in model if k.endswith(".qweight")})
by_step = collections.defaultdict(list)
for op in ops:
    by_step[op["step"]].append(op)
assert set(by_step) == {s["step"] for s in steps}
for s in steps:
    assert sorted(op["layer"] for op in by_step[s["step"]]) == layers
    total = sum(p["rows"] for p in s["spans"])
    assert all(op["attrs"]["m"] == total for op in by_step[s["step"]])
print("every step holds every layer once, under its name")

where = collections.defaultdict(int)
for s in sorted(steps, key=lambda s: s["step"]):
    assert s["how"] == "exact"
    for p in s["spans"]:
        assert p["position"] == where[p["stream"]], p
        where[p["stream"]] += p["rows"]
tapped = {e["stream"]: e for e in exchanges if e["phase"] == "tapped"}
assert set(where) == set(tapped), (where, list(tapped))
for stream, e in tapped.items():
    assert where[stream] == e["usage"]["prompt_tokens"] + e["usage"]["completion_tokens"] - 1
print("steps name the exchange of every row:", len(tapped), "exchanges")

cache = {}


def tensor(t):
    if t["file"] not in cache:
        cache[t["file"]] = safetensors(f"{fixture}/{t['file']}")
    return cache[t["file"]][t["name"]]


act = 0
for op in random.sample(ops, 40):
    at, t = op["attrs"], {x["role"]: x for x in op["in"]}
    for role in "qweight", "qzeros", "scales":
        assert tensor(t[role]) == model[f"{op['layer']}.{role}"], role
        assert t[role]["ref"]["tensors"] == [f"{op['layer']}.{role}"]
    g_idx = struct.unpack(f"<{at['k']}i", model[op["layer"] + ".g_idx"])
    natural = all(g == i // at["group_size"] for i, g in enumerate(g_idx))
    assert at["act_order"] == (not natural)
    act += at["act_order"]
    m, n, k, pack = at["m"], at["n"], at["k"], 32 // at["bits"]
    a = struct.unpack(f"<{m * k}e", tensor(t["a"]))
    c = struct.unpack(f"<{m * n}e", tensor(op["out"]))
    q = struct.unpack(f"<{k // pack * n}I", tensor(t["qweight"]))
    z = struct.unpack(f"<{k // at['group_size'] * n // pack}I", tensor(t["qzeros"]))
    s = struct.unpack(f"<{k // at['group_size'] * n}e", tensor(t["scales"]))
    for _ in range(4):
        i, j = random.randrange(m), random.randrange(n)
        want = size = 0.0
        for x in range(k):
            g = g_idx[x]
            zero = (z[g * (n // pack) + j // pack] >> (at["bits"] * (j % pack)) & (2 ** at["bits"] - 1)) + at["zero_offset"]
            w = ((q[x // pack * n + j] >> (at["bits"] * (x % pack)) & (2 ** at["bits"] - 1)) - zero) * s[g * n + j]
            want += a[i * k + x] * w
            size += abs(a[i * k + x] * w)
        assert abs(c[i * n + j] - want) <= 1e-3 * abs(want) + 1e-5 * size + 1e-7, (op["op"], i, j, c[i * n + j], want)
print("weights are the checkpoint's, C is A times W;", "act-order seen" if act else "no act-order")
print("tap:", manifest["tap"]["present"], manifest["tap"]["build"].split()[0], manifest["tap"]["mode"]["take"], manifest["tap"]["library"].rsplit("/", 1)[1])
