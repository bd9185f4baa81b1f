#!/usr/bin/env python3
"""gpu_truth.py - check what the tap recorded of a vLLM on a GPU against independent sources,
without code of Tapedeck.

gpu_truth.py steps EXPORTED LINEARS
    Check the number of ops, for a recording with one request in flight: the requests' token counts
    give the number of steps, and each step runs LINEARS linear layers (fused q/k/v is one, and so
    is fused gate/up).
gpu_truth.py ask EXPORTED URL
    Send the tapped requests again, one after the other, to a server that profiles itself
    (/start_profile, /stop_profile).
gpu_truth.py profile EXPORTED TRACES
    Compare the launches with the traces of torch's profiler for these requests, from a server
    without the tap.
gpu_truth.py torch EXPORTED CHECKPOINT
    Compare C of every recorded op with A times the checkpoint's W, computed by torch in float64.

EXPORTED is a folder of `fixture export`. Each prints its findings; exit 1: something does not hold.
SPDX-License-Identifier: Apache-2.0
"""
import collections
import glob
import gzip
import json
import os
import struct
import sys
import urllib.request

HALF = 2.0 ** -11  # relative error of one rounding to float16


def rows(folder, name):
    return [json.loads(line) for line in open(f"{folder}/{name}.jsonl")]


def count(folder, name):
    return json.load(open(folder + "/manifest.json"))["ledger"].get(name, {"n": 0})["n"]


def check(right, what):
    print(("holds  " if right else "WRONG  ") + what)
    return 0 if right else 1


# ---- the ledger ----------------------------------------------------------------------------------

def steps(folder, linears):
    """A request of T tokens takes T steps: the step over its prompt gives the first token."""
    tapped = [e for e in rows(folder, "exchanges") if e["phase"] == "tapped"]
    expected = sum(e["usage"]["completion_tokens"] for e in tapped)
    dropped = {k: v["n"] for k, v in json.load(open(folder + "/manifest.json"))["ledger"].items() if k.startswith("ops.dropped.")}
    seen = count(folder, "ops.seen")
    wrong = check(seen == count(folder, "ops.kept") + sum(dropped.values()), f"ops: {seen} seen are {count(folder, 'ops.kept')} kept and dropped {dropped}")
    return wrong + check(seen and seen == expected * linears, f"{expected} steps of {len(tapped)} requests, {linears} layers each, are {expected * linears} ops; {seen} were seen")


# ---- torch's profiler ----------------------------------------------------------------------------

def post(url, body=None):
    r = urllib.request.Request(url, json.dumps(body).encode() if body else b"", {"Content-Type": "application/json"})
    return urllib.request.urlopen(r, timeout=300).read()


def ask(folder, url):
    tapped = [e for e in rows(folder, "exchanges") if e["phase"] == "tapped"]
    post(url + "/start_profile")
    for e in sorted(tapped, key=lambda e: e["t_sent_ns"]):
        post(url + e["path"], e["request"])
    post(url + "/stop_profile")
    return check(len(tapped) > 0, f"{len(tapped)} requests sent again")


def traced(folder):
    """name -> launches, of all traces in a folder"""
    n = collections.Counter()
    for path in glob.glob(folder + "/**/*.json*", recursive=True):
        with (gzip.open if path.endswith(".gz") else open)(path, "rt") as f:
            n.update(e["name"] for e in json.load(f).get("traceEvents", []) if e.get("cat") == "kernel")
    return n


def family(name):
    """gemm_half_q_half_gptq_4bit_kernel of a mangled or a readable symbol; None: not a kernel of gptq or Marlin"""
    for part in ("gemm_half_q_half_gptq_4bit_kernel", "gemm_half_q_half_gptq_8bit_kernel", "reconstruct_exllama_8bit_kernel", "reconstruct_exllama_kernel", "Marlin"):
        if part in name:
            return part
    return None


def profile(folder, traces):
    ours, theirs = collections.Counter(), collections.Counter()
    for k in json.load(open(folder + "/manifest.json"))["tap"]["kernels"]:
        ours[family(k["symbol"])] += k["launches"]
    for name, n in traced(traces).items():
        theirs[family(name)] += n
    total = sum(theirs.values())
    wrong = check(total > 0, f"torch's profiler saw {total} launches, the tap {sum(ours.values())}")
    for name in sorted(set(ours) | set(theirs), key=str):
        if name:
            wrong += check(ours[name] == theirs[name], f"{name}: {ours[name]} launches seen by the tap, {theirs[name]} by torch's profiler")
    return wrong


# ---- torch ---------------------------------------------------------------------------------------

TYPES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "I32": "int32"}


class Files:
    """Tensors of safetensors files."""

    def __init__(self, torch, device):
        self.torch, self.device, self.head = torch, device, {}

    def get(self, path, name):
        if path not in self.head:
            with open(path, "rb") as f:
                n = struct.unpack("<Q", f.read(8))[0]
                self.head[path] = (8 + n, json.loads(f.read(n)))
        start, head = self.head[path]
        t = head[name]
        a, b = t["data_offsets"]
        with open(path, "rb") as f:
            f.seek(start + a)
            raw = bytearray(f.read(b - a))
        return self.torch.frombuffer(raw, dtype=getattr(self.torch, TYPES[t["dtype"]])).reshape(t["shape"]).to(self.device)


def unpack(torch, words, bits, dim):
    """The values of a GPTQ tensor, the first in the lowest bits, along dim."""
    shifts = torch.arange(0, 32, bits, device=words.device, dtype=torch.int32)
    q = (words.unsqueeze(dim + 1) >> shifts.view([-1] + [1] * (words.dim() - dim - 1))) & ((1 << bits) - 1)
    return q.flatten(dim, dim + 1).to(torch.float64)


def dequantised(torch, files, model, layer, bits):
    """W [k, n] of a layer: scale times (q - zero - 1), the zero points stored one too low (GPTQ v1)."""
    q = unpack(torch, files.get(model, layer + ".qweight"), bits, 0)
    zeros = unpack(torch, files.get(model, layer + ".qzeros"), bits, 1) + 1
    scales = files.get(model, layer + ".scales").to(torch.float64)
    g = files.get(model, layer + ".g_idx").long()
    return scales[g] * (q - zeros[g])


def parts(layer):
    """model.layers.1.mlp.gate_up_proj is gate_proj and up_proj, one after the other."""
    head, _, last = layer.rpartition(".")
    fused = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}
    return [f"{head}.{p}" for p in fused.get(last, (last,))]


def torch_check(folder, checkpoint):
    import torch
    device = "cuda" if torch.cuda.is_available() else "cpu"
    files, model, weights, worst, n = Files(torch, device), os.path.join(checkpoint, "model.safetensors"), {}, collections.Counter(), 0
    for op in rows(folder, "ops"):
        if op["kind"] != "gptq_gemm":
            continue
        names = op["in"][1].get("ref", {}).get("tensors") or []
        layers = [t.rpartition(".")[0] for t in names] or parts(op["layer"])
        key = tuple(layers)
        if key not in weights:
            weights[key] = torch.cat([dequantised(torch, files, model, x, op["attrs"]["bits"]) for x in layers], 1)
        w = weights[key]
        a, c = (files.get(f"{folder}/{t['file']}", t["name"]).to(torch.float64) for t in (op["in"][0], op["out"]))
        # eight halves are added in float16, then their sums: some tens of roundings of the largest term
        error = ((a @ w - c).abs() / (a.abs() @ w.abs() * HALF + 1e-9)).max().item()
        worst[op["layer"]] = max(worst[op["layer"]], error)
        n += 1
    for layer, error in sorted(worst.items()):
        print(f"  {layer}: worst |C - A W| is {error:.2f} x 2^-11 x |A||W|")
    return check(n > 0 and max(worst.values()) < 16, f"{n} ops of {len(worst)} layers are torch's products of the recorded inputs ({device}, float64)")


def main():
    jobs = {"steps": lambda a: steps(a[0], int(a[1])), "ask": lambda a: ask(a[0], a[1]), "profile": lambda a: profile(a[0], a[1]), "torch": lambda a: torch_check(a[0], a[1])}
    if len(sys.argv) != 4 or sys.argv[1] not in jobs:
        sys.exit(__doc__)
    sys.exit(1 if jobs[sys.argv[1]](sys.argv[2:]) else 0)


if __name__ == "__main__":
    main()
