"""eight_make.py - a checkpoint with weights of 8 and 16 bits, and what vLLM makes of them when it loads it: writes eight/.

SPDX-License-Identifier: Apache-2.0

Run: python3 tests/unit/data/eight_make.py     (numpy 2.4.6 and ml_dtypes 0.6.0 made the files that are committed)
eight/sent.bin holds records as ggml_make.py has them, named by the layer: w, w_scales. Steps as vLLM 0.26 takes them:
requantize_with_max_scale and per_tensor_dequantize (layers/quantization/utils/w8a8_utils.py), scaled_fp8_quant (csrc,
quantization/w8a8/fp8), which multiplies by the scale's inverse."""
import json
import pathlib
import struct

import ml_dtypes
import numpy as np

rng = np.random.default_rng(19)
E4M3, BF16, F16, F32 = ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16, np.float16, np.float32
TYPES = {np.dtype(E4M3): "F8_E4M3", np.dtype(BF16): "BF16", np.dtype(F16): "F16", np.dtype(F32): "F32", np.dtype(np.int8): "I8"}
folder = pathlib.Path(__file__).with_name("eight")
tensors, sent = {}, []


def normal(*shape):
    return (rng.standard_normal(shape) / 8).astype(F32)


def to_e4m3(x, scale):
    return np.clip(x.astype(F32) * (F32(1) / scale).astype(F32), -448, 448).astype(E4M3)


def put(name, weight, **scales):
    tensors[name + ".weight"] = weight
    tensors.update({f"{name}.{k}": v for k, v in scales.items()})


def record(name, *arrays):
    parts = [np.ascontiguousarray(a).tobytes() for a in arrays]
    sent.append(name.encode().ljust(16, b"\0") + struct.pack("<q", len(parts)))
    sent.extend(struct.pack("<q", len(p)) + p + b"\0" * (-len(p) % 8) for p in parts)


for i in range(2):
    layer, parts = f"model.layers.{i}", []
    for name, n in ("q", 32), ("k", 16), ("v", 16):
        w = normal(n, 48) * F32(1 + n / 16)
        scale = np.array(np.abs(w).max() / 448, F32).reshape([] if name == "k" else [1])
        parts.append((to_e4m3(w, scale), scale))
        put(f"{layer}.self_attn.{name}_proj", *parts[-1][:1], weight_scale=scale)
    top = max(s for _, s in parts).reshape(1)
    stacked = [to_e4m3((q.astype(F16).astype(F32) * s).astype(F16), top) for q, s in parts]
    record(f"{i} qkv", np.concatenate(stacked), top)
    w = normal(48, 32)
    scale = (np.abs(w).max(axis=1, keepdims=True) / 448).astype(F32)
    put(f"{layer}.self_attn.o_proj", to_e4m3(w, scale), weight_scale=scale)
    record(f"{i} o", to_e4m3(w, scale), scale)
    gate, up = normal(40, 48).astype(BF16), normal(40, 48).astype(BF16)
    put(f"{layer}.mlp.gate_proj", gate)
    put(f"{layer}.mlp.up_proj", up)
    both = np.concatenate([gate, up])
    scale = np.array([np.abs(both.astype(F32)).max() / 448], F32)
    record(f"{i} gate_up", to_e4m3(both, scale), scale)
    w = normal(48, 40)
    scale = (np.abs(w).max(axis=1, keepdims=True) / 127).astype(F32)
    put(f"{layer}.mlp.down_proj", np.rint(w / scale).astype(np.int8), weight_scale=scale)
    record(f"{i} down", np.rint(w / scale).astype(np.int8), scale)
w = normal(130, 160).astype(BF16)
put("lm_head", w)
scale = np.stack([[np.abs(w[a:a + 128, b:b + 128].astype(F32)).max() / 448 for b in (0, 128)] for a in (0, 128)]).astype(F32)
each = np.repeat(np.repeat(scale, 128, 0), 128, 1)[:130, :160]
record("head block", to_e4m3(w, each), scale)
w = normal(48, 32).astype(F16)           # a server in bfloat16 (--dtype) rounds it before
put("model.layers.2.self_attn.o_proj", w)
scale = np.array([np.abs(w.astype(F32)).max() / 448], F32)
record("2 o bf16", to_e4m3(w.astype(BF16), scale), scale)
head, at = {}, 0
for name in sorted(tensors):
    size = tensors[name].nbytes
    head[name] = {"dtype": TYPES[tensors[name].dtype], "shape": list(tensors[name].shape), "data_offsets": [at, at + size]}
    at += size
text = json.dumps(head, separators=(",", ":")).encode()
text += b" " * (-len(text) % 8)
folder.mkdir(exist_ok=True)
(folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(np.ascontiguousarray(tensors[n]).tobytes() for n in sorted(tensors)))
(folder / "sent.bin").write_bytes(b"".join(sent))
(folder / "config.json").write_text(json.dumps({
    "model_type": "llama", "hidden_size": 48, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 1,
    "head_dim": 16, "vocab_size": 130, "max_position_embeddings": 64, "tie_word_embeddings": False, "eos_token_id": 2, "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0, "quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic"}}) + "\n")
