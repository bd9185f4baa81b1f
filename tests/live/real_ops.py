"""real_ops.py MODEL_DIR [LAYERS] - describe ops on a checkpoint's real weights for the program
tests/helpers/raw_ops.

Run it in an empty folder; vllm_kernels.sh does. The model is one that make_gptq.py writes, bf16 or
GPTQ with 4 bits; q/k/v and gate/up are fused as in vLLM. Activations are random rows with a few
large features, as models have them. Needs numpy.
SPDX-License-Identifier: Apache-2.0"""
import json
import os
import struct
import sys

import numpy

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../helpers"))
import raw_ops

FUSED = {"qkv_proj": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), "o_proj": ("self_attn.o_proj",),
         "gate_up_proj": ("mlp.gate_proj", "mlp.up_proj"), "down_proj": ("mlp.down_proj",)}
STORED = {"BF16": numpy.uint16, "F16": numpy.float16, "F32": numpy.float32, "I32": numpy.int32}
rng = numpy.random.default_rng(1)


class Checkpoint:
    def __init__(self, folder):
        path = os.path.join(folder, "model.safetensors")
        with open(path, "rb") as f:
            size = struct.unpack("<Q", f.read(8))[0]
            self.header = json.loads(f.read(size))
        self.data = numpy.memmap(path, mode="r", offset=8 + size)

    def get(self, name):
        e = self.header[name]
        from_, to = e["data_offsets"]
        return numpy.array(self.data[from_:to]).view(STORED[e["dtype"]]).reshape(e["shape"]), e["dtype"]


def rows(m, k):
    """[m, k] BF16, one feature in a hundred ten times as large."""
    return raw_ops.to_bf16(rng.standard_normal((m, k)) * numpy.where(rng.random(k) < 0.01, 10, 1))


def add_gemm(ckpt, layer, names, m):
    w = numpy.concatenate([ckpt.get(n + ".weight")[0] for n in names])
    raw_ops.gemm(layer, "BF16", rows(m, w.shape[1]), w)


def add_int4(ckpt, layer, names, m):
    parts = [[ckpt.get(f"{n}.{p}")[0] for n in names] for p in ("qweight", "qzeros", "scales")]
    qweight, qzeros, scales = (numpy.concatenate(p, axis=1) for p in parts)
    k = qweight.shape[0] * 8
    raw_ops.gptq(layer, "BF16", rows(m, k), qweight, qzeros, raw_ops.to_bf16(scales), k // scales.shape[0])


def main(folder, n_layers=2):
    ckpt = Checkpoint(folder)
    add = add_int4 if any(n.endswith("qweight") for n in ckpt.header) else add_gemm
    for layer in range(int(n_layers)):
        for fused, parts in FUSED.items():
            for m in (1, 7, 64):
                add(ckpt, f"model.layers.{layer}.{fused}", [f"model.layers.{layer}.{p}" for p in parts], m)
    w, dtype = ckpt.get("model.embed_tokens.weight")
    raw_ops.gemm("lm_head", "BF16", rows(2, w.shape[1]), w if dtype == "BF16" else raw_ops.to_bf16(w))


main(*sys.argv[1:])
