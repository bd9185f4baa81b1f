#!/usr/bin/env python3
"""partial_sums.py EXPORTED --checkpoint DIR - compute how near float16 sums come to overflow.

The sums are those of vLLM's exllama kernel on the inputs of a recording.

The kernel (4 bit, at most 50 rows: csrc/quantization/gptq/q_gemm.cu of vLLM, dot22_8_f) takes eight
k of a column as four pairs, adds the four products (q - zero) * a of either half of the pairs with
fused multiply-adds in float16, from zero, and goes on in float32 only then, where the scale comes
in as well. So one "chain" is the four products of k, k+2, k+4, k+6; what would be rounded beyond
65504 is Inf, and so is the answer.

EXPORTED is what `fixture export` writes, of any server: A is rounded to float16, whatever its type,
and layers of a GGUF are looked up by their names in transformers. DIR has GPTQ 4-bit weights of the
same model (make_gptq.py). Rows of prompts longer than 50 tokens count as well: vLLM gives those to
cuBLAS, but a shorter prompt has such rows too. Every chain of every row and column is covered:
those for which the sum of |a| * (the largest |q - zero| of that k in any column) says that they
cannot be larger than what was seen are left out, all others are computed step by step, exactly as
the kernel rounds. `seen` is the largest exact result of a step, before it is rounded to float16.
Needs numpy, and seconds for the suite quick. The exit status is always 0.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import collections
import glob
import json

import numpy as np

from gpu_truth import parts, rows
from make_gptq import BLOCK

MAX = float(np.finfo(np.float16).max)  # 65504
INF = MAX + 16                         # what is rounded to Inf, from here on
SLACK = 1.01                           # three roundings to float16 on the way to the last step, and to spare
CHAINS = 64                            # times all columns: what is computed at once
TYPES = {"F16": np.float16, "BF16": np.uint16, "F32": np.float32, "I32": np.int32}


def tensors(path):
    """name -> (file, offset, type, shape) of a safetensors file"""
    with open(path, "rb") as f:
        n = int.from_bytes(f.read(8), "little")
        head = json.loads(f.read(n))
    return {name: (path, 8 + n + t["data_offsets"][0], t["dtype"], t["shape"]) for name, t in head.items() if name != "__metadata__"}


def load(path, offset, dtype, shape):
    v = np.fromfile(path, TYPES[dtype], int(np.prod(shape)), offset=offset).reshape(shape)
    return (v.astype(np.uint32) << 16).view(np.float32) if dtype == "BF16" else v


def unpacked(words, axis):
    """Eight 4-bit values of each int32 along axis, the first in the lowest bits."""
    words = np.moveaxis(words, axis, 0)
    q = (words[:, None] >> np.arange(0, 32, 4, dtype=np.int32)[:, None]) & 15
    return np.moveaxis(q.reshape(-1, words.shape[1]), 0, axis).astype(np.int8)


def weights(model, layer, v1):
    """(q - zero as the kernel has it [k, n], the order in which it takes k); v1: zero points are stored one too low"""
    q, zeros, g = (load(*model[f"{layer}.{t}"]) for t in ("qweight", "qzeros", "g_idx"))
    order = np.argsort(g, kind="stable")  # the identity, unless act-order
    return (unpacked(q, 0) - (unpacked(zeros, 1) + v1)[g])[order], order


def names_of(layer):
    """Names in transformers of a recorded layer: blk.3.attn_q of a GGUF, or q_proj, k_proj, v_proj of a fused qkv_proj."""
    part = layer.split(".")
    if part[0] == "blk" and len(part) > 2 and part[2] in BLOCK:
        return [f"model.layers.{part[1]}.{BLOCK[part[2]]}"]
    return parts(layer)


def chains(a, w, k):
    """The four steps of chains [c] in all columns [n]; k [c, 4]. Returns the largest result of a step up to the first that is Inf in float16
    (Inf where an input is), and how many chains end as Inf or NaN.
    Results are exact in float64: at most 45 bits lie between float16's smallest value and sums of 15 times its largest."""
    sums, top = np.zeros((len(k), w.shape[1]), np.float16), 0.0
    for step in range(4):
        exact = sums.astype(np.float64) + a[:, step, None] * w[k[:, step]]
        top = max(top, np.abs(exact, where=np.isfinite(sums) & ~np.isnan(exact), out=np.zeros_like(exact)).max())
        sums = exact.astype(np.float16)
    return top, np.count_nonzero(~np.isfinite(sums))


def measure(a, w, largest, best, op):
    """Put one op's rows a [m, k] into best; largest [k]: the largest |q - zero| of a k."""
    m, k = a.shape
    reach = SLACK * (np.abs(a.astype(np.float64)) * largest).reshape(m, k // 8, 4, 2).sum(2).ravel()
    left = np.nonzero(~(reach <= min(best["top"], MAX)))[0]  # NaN is left in
    left = left[np.argsort(-reach[left])]
    while len(left):
        row, pair = np.divmod(left[:CHAINS], k // 4)
        ks = (pair // 2 * 8 + pair % 2)[:, None] + np.arange(0, 8, 2)
        top, over = chains(a[row[:, None], ks].astype(np.float64), w, ks)
        if top > best["top"]:
            best.update(top=top, where=f"{op['layer']}, op {op['op']} of {m} rows")
        best["over"] += over
        left = left[CHAINS:]
        left = left[~(reach[left] <= min(best["top"], MAX))]
    best.update(a=max(best["a"], np.abs(a).max()), rows=best["rows"] + m, chains=best["chains"] + m * (k // 4) * w.shape[1],
                inputs=best["inputs"] + np.count_nonzero(~np.isfinite(a)))


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("exported")
    p.add_argument("--checkpoint", required=True)
    a = p.parse_args()
    config, model = json.load(open(a.checkpoint + "/config.json"))["quantization_config"], {}
    if config["bits"] != 4:
        p.error("--checkpoint: only 4 bit; the kernel of 8 bit adds in float32")
    for path in sorted(glob.glob(a.checkpoint + "/*.safetensors")):
        model.update(tensors(path))
    ops, without, kinds, heaviest = collections.defaultdict(list), 0, {}, 0
    for op in rows(a.exported, "ops"):
        a_of = op["in"][0] if op["in"] and op["in"][0]["role"] == "a" and "file" in op["in"][0] else {"shape": [0]}
        known = [x for x in names_of(op.get("layer") or "") if x + ".qweight" in model and model[x + ".qweight"][3][0] * 8 == a_of["shape"][-1]]
        without += not known
        for layer in known:
            ops[layer].append(op)
    for layer, those in ops.items():
        w, order = weights(model, layer, config.get("checkpoint_format") != "gptq_v2")
        largest = np.abs(w).max(1)
        best = kinds.setdefault(layer.rpartition(".")[2], collections.defaultdict(float, where="nowhere"))
        for op in those:
            t = op["in"][0]
            values = load(*tensors(f"{a.exported}/{t['file']}")[t["name"]]).astype(np.float16)
            measure(values.reshape(-1, len(order))[:, order], w, largest, best, op)
        heaviest = max(heaviest, largest.max())
    if not kinds:
        p.error(f"{a.exported}: no op has weights in {a.checkpoint}")
    print(f"{'layers':10} {'rows':>7} {'largest |a|':>12} {'seen':>9} {'of 65504':>9} {'chains':>15} {'overflow':>9}  where")
    for kind, b in kinds.items():
        print(f"{kind:10} {b['rows']:7.0f} {b['a']:12.2f} {b['top']:9.1f} {b['top'] / MAX:9.5f} {b['chains']:15.0f} {b['over']:9.0f}  {b['where']}")
    top, over, total, inputs = (f(b[x] for b in kinds.values()) for f, x in ((max, "top"), (sum, "over"), (sum, "chains"), (sum, "inputs")))
    print(f"{without} ops not looked at (no 4-bit weights of their layer and size, or no input); {inputs:.0f} inputs are not finite in float16")
    print(f"|q - zero| is at most {heaviest}: overflow needs a single |a| of {INF / heaviest:.0f}, or four of {INF / heaviest / 4:.0f} in one chain")
    print(f"natural inputs reach {top / MAX:.5f} of float16's range; {over:.0f} chains of {total:.0f} overflow")


if __name__ == "__main__":
    with np.errstate(over="ignore", invalid="ignore"):
        main()
