#!/usr/bin/env python3
"""random_gptq.py OUT [OPTIONS] - a Llama of random weights: GPTQ, AWQ, FP8, INT8 or not quantised.

For kernels on a machine that has no model: sizes that Marlin takes (multiples of 128), weights
drawn on the quantised grid, so that the file is exactly what the kernels see, and small enough that
float16 holds all activations. It says nothing sensible. The tokenizer has a token for each byte, so
every text is a prompt. Needs numpy. The output is the same every time. Layout: make_gptq.py.

--experts N: a mixture of N experts of size --ffn in each layer (Mixtral), of which a token has two.

--rescale S (a power of two up to 1024) writes the same function with other numbers: the scales of
up_proj times S, those of down_proj divided by S. All scales have 5 significant bits, so that both
are exact. What down_proj reads is S times larger, what it gives is the same; a kernel that adds
products in float16 before it multiplies by the scale overflows there, others do not.

--bits 4|8, or 16: float16, not quantised. --awq: 4 bits, zero points that differ, in AWQ's packing.
--zeros: GPTQ with zero points that differ (sym false), which vLLM 0.26 does not serve (direct_gptq.py). --act-order: rows of a group lie in any order (desc_act). --bias: every linear layer but lm_head has
one. --eight FORM: 8-bit weights whose activations are quantised too: tensor, block (FP8, a scale for
the tensor, for blocks of 128), static (as tensor; the activations' scale is in the checkpoint), channel (FP8, compressed-tensors), int8, int8-azp (INT8,
compressed-tensors; with zero points of activations). --fine: scales have all bits of float16, so that their product with a zero point is rounded.
--same-layers: each layer has the numbers of the first, which a large model is soon made of; whose
weights are whose cannot be told then.
Sizes: --group 128 (-1: all of k), --hidden 1024, --ffn 2816, --layers 4; --seed 1.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os

import numpy as np

from make_gptq import dump, write_safetensors

WORDS = 2048 - 258  # filler tokens beside the 256 bytes, bos and eos


def packed(q, bits, axis):
    """32/bits values along axis in an int32, the first in the lowest bits."""
    per = 32 // bits
    q = np.moveaxis(q.astype(np.uint32), axis, 0)
    word = sum(q[i::per] << np.uint32(bits * i) for i in range(per))
    return np.ascontiguousarray(np.moveaxis(word.astype(np.uint32), 0, axis)).view(np.int32)


def coarse(x, fine=False):
    """x > 0 with 5 significant bits, or all that it has, as float16."""
    if fine:
        return x.astype(np.float16)
    mantissa, exponent = np.frexp(x)
    return np.ldexp(np.rint(mantissa * 32) / 32, exponent).astype(np.float16)


def packed_awq(q):
    """Eight columns in an int32, in AutoAWQ's order: 0 2 4 6 1 3 5 7, the first in the lowest bits."""
    return packed(q.reshape(len(q), -1, 8)[:, :, [0, 2, 4, 6, 1, 3, 5, 7]].reshape(q.shape), 4, 1)


def layer(rng, k, n, a, factor, g_idx):
    """The tensors of a linear layer k -> n with outputs about as large as its inputs, times `factor`; g_idx: the group of each row. GPTQ is
    symmetric: the zero point is the grid's middle."""
    if a.eight:
        return eight_bits(rng.standard_normal((n, k), dtype=np.float32) * np.float32(factor / k ** 0.5), a.eight)
    if a.bits == 16:
        return {"weight": (rng.standard_normal((n, k), dtype=np.float32) * factor / k ** 0.5).astype(np.float16)}
    groups, middle, spread = k // (a.group if a.group > 0 else k), 1 << (a.bits - 1), 2.6 if a.bits == 4 else 40.0
    zeros = rng.integers(6, 11, (groups, n)) if a.awq or a.zeros else np.full((groups, n), middle)
    q = np.clip(np.rint(rng.standard_normal((k, n), dtype=np.float32) * spread) + zeros[g_idx], 0, 2 * middle - 1)
    scales = coarse((0.75 + 0.5 * rng.random((groups, n), dtype=np.float32)) / (spread * k ** 0.5), a.fine) * np.float16(factor)
    if a.awq:
        return {"qweight": packed_awq(q), "qzeros": packed_awq(zeros), "scales": scales}
    return {"qweight": packed(q, a.bits, 0), "qzeros": packed(zeros - 1, a.bits, 1), "scales": scales, "g_idx": g_idx}


def e4m3(x):
    """The nearest numbers of E4M3, as its bytes; |x| <= 448."""
    bits = np.arange(127)
    values = np.where(bits >> 3, np.ldexp(8.0 + (bits & 7), (bits >> 3) - 10), np.ldexp(1.0 * (bits & 7), -9))
    nearest = np.searchsorted((values[1:] + values[:-1]) / 2, np.abs(x))
    return (nearest | (x < 0) << 7).astype(np.uint8)


def eight_bits(w, form):
    n, k = w.shape
    if form == "block":
        scale = np.abs(w.reshape(n // 128, 128, k // 128, 128)).max(axis=(1, 3)).astype(np.float32) / np.float32(448)
        return {"weight": e4m3(w / np.repeat(np.repeat(scale, 128, 0), 128, 1)), "weight_scale_inv": scale}
    top = np.float32(127 if form.startswith("int8") else 448)
    whole = form in ("tensor", "static")
    scale = (np.abs(w).max(axis=None if whole else 1, keepdims=True) / top).astype(np.float32)
    q = np.clip(w / scale, -top, top)
    out = {"weight": np.rint(q).astype(np.int8) if form.startswith("int8") else e4m3(q), "weight_scale": scale.reshape(1) if whole else scale}
    return out | ({"input_scale": np.full(1, 16 / 448, np.float32)} if form == "static" else {})


def eight_bit_quantization(form):
    if form in ("tensor", "static", "block"):
        return {"quant_method": "fp8", "activation_scheme": "static" if form == "static" else "dynamic"} | ({"weight_block_size": [128, 128]} if form == "block" else {})
    kind = {"num_bits": 8, "type": "float" if form == "channel" else "int"}
    return {"quant_method": "compressed-tensors", "format": "float-quantized" if form == "channel" else "int-quantized",
            "quantization_status": "compressed", "ignore": ["lm_head"],
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": kind | {"symmetric": True, "strategy": "channel", "dynamic": False},
                                          "input_activations": kind | {"symmetric": form != "int8-azp", "strategy": "token", "dynamic": True}}}}


def quantization(a):
    if a.eight:
        return {"quantization_config": eight_bit_quantization(a.eight)}
    if a.bits == 16:
        return {}
    method = {"quant_method": "awq", "zero_point": True, "version": "gemm"} if a.awq else \
        {"quant_method": "gptq", "sym": not a.zeros, "desc_act": a.act_order, "lm_head": False, "checkpoint_format": "gptq"}
    return {"quantization_config": {"bits": a.bits, "group_size": a.group} | method}


# What a layer reads, where several read the same: vLLM fuses them, and GPTQ, which orders rows by
# it, gives them one order.
READS = {"self_attn.q_proj": "attention", "self_attn.k_proj": "attention", "self_attn.v_proj": "attention", "mlp.gate_proj": "mlp", "mlp.up_proj": "mlp"}


def experts(a, rng, prefix):
    """The tensors of a layer's experts, and of the router between them, which is never quantised."""
    out = {f"{prefix}.gate.weight": (rng.standard_normal((a.experts, a.hidden), dtype=np.float32) / a.hidden ** 0.5).astype(np.float16)}
    for e in range(a.experts):
        orders = {k: np.arange(k, dtype=np.int32) // (a.group if a.group > 0 else k) for k in (a.hidden, a.ffn)}
        if a.act_order:
            orders = {k: rng.permutation(order) for k, order in orders.items()}
        for name, k, n in (("w1", a.hidden, a.ffn), ("w3", a.hidden, a.ffn), ("w2", a.ffn, a.hidden)):
            for part, v in layer(rng, k, n, a, 1, orders[k]).items():
                out[f"{prefix}.experts.{e}.{name}.{part}"] = v
    return out


def weights(a, rng):
    heads, kv = a.hidden // 128, max(1, a.hidden // 512)
    out = {"model.embed_tokens.weight": rng.standard_normal((258 + WORDS, a.hidden), dtype=np.float32).astype(np.float16),
           "lm_head.weight": (rng.standard_normal((258 + WORDS, a.hidden), dtype=np.float32) * 2 / a.hidden ** 0.5).astype(np.float16),
           "model.norm.weight": np.ones(a.hidden, np.float16)}
    sizes = {"self_attn.q_proj": (a.hidden, heads * 128), "self_attn.k_proj": (a.hidden, kv * 128), "self_attn.v_proj": (a.hidden, kv * 128),
             "self_attn.o_proj": (heads * 128, a.hidden), "mlp.gate_proj": (a.hidden, a.ffn), "mlp.up_proj": (a.hidden, a.ffn), "mlp.down_proj": (a.ffn, a.hidden)}
    if a.experts:
        sizes = {name: size for name, size in sizes.items() if not name.startswith("mlp")}
    for i in range(a.layers):
        if i and a.same_layers:
            out.update({name.replace(".0.", f".{i}.", 1): v for name, v in out.items() if name.startswith("model.layers.0.")})
            continue
        orders = {}
        if a.experts:
            out.update(experts(a, rng, f"model.layers.{i}.block_sparse_moe"))
        for name, (k, n) in sizes.items():
            g_idx = np.arange(k, dtype=np.int32) // (a.group if a.group > 0 else k)
            if a.act_order:
                g_idx = orders.setdefault(READS.get(name, name), rng.permutation(g_idx))
            factor = {"mlp.up_proj": a.rescale, "mlp.down_proj": 1 / a.rescale}.get(name, 1)
            for part, v in layer(rng, k, n, a, factor, g_idx).items():
                out[f"model.layers.{i}.{name}.{part}"] = v
            if a.bias:
                out[f"model.layers.{i}.{name}.bias"] = (rng.standard_normal(n, dtype=np.float32) * factor / 4).astype(np.float16)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            out[f"model.layers.{i}.{norm}.weight"] = np.ones(a.hidden, np.float16)
    return out


def tokenizer():
    """Byte-level BPE without merges: token b is byte b, as GPT-2 spells bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in plain]
    vocab = {chr(b) if b in plain else chr(256 + rest.index(b)): b for b in range(256)}
    vocab.update({"<s>": 256, "</s>": 257}, **{f"\u0120filler{i}": 258 + i for i in range(WORDS)})
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
            "added_tokens": [{"id": vocab[t], "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
                             for t in ("<s>", "</s>")],
            "pre_tokenizer": level, "decoder": dict(level, add_prefix_space=True),
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "vocab": vocab, "merges": []}}


def main():
    p = argparse.ArgumentParser(description="a Llama of random weights")
    p.add_argument("out")
    for name, value in (("bits", 4), ("group", 128), ("hidden", 1024), ("ffn", 2816), ("layers", 4), ("seed", 1), ("rescale", 1), ("experts", 0)):
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--eight", choices=("tensor", "static", "block", "channel", "int8", "int8-azp"))
    for name in ("bias", "awq", "zeros", "act-order", "fine", "same-layers"):
        p.add_argument("--" + name, action="store_true")
    a = p.parse_args()
    if a.rescale not in [1 << i for i in range(11)]:
        p.error("--rescale: a power of two, at most 1024")
    if a.bits not in (4, 8, 16) or (a.awq and (a.bits != 4 or a.act_order)) or (a.zeros and (a.bits != 4 or a.awq)) or (a.bits == 16 and a.act_order):
        p.error("--bits: 4, 8 or 16; --awq: 4 bits; --zeros: 4 bits of GPTQ; --act-order: of GPTQ alone")
    if a.experts and (a.bias or a.rescale != 1):
        p.error("--experts: without --bias and --rescale")
    os.makedirs(a.out, exist_ok=True)
    write_safetensors(os.path.join(a.out, "model.safetensors"), weights(a, np.random.default_rng(a.seed)))
    kind = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": a.bias, "mlp_bias": a.bias}
    if a.experts:
        kind = {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "num_local_experts": a.experts, "num_experts_per_tok": 2,
                "sliding_window": None}
    dump(a.out, "config.json", kind | {
        "hidden_act": "silu", "hidden_size": a.hidden, "intermediate_size": a.ffn,
        "num_hidden_layers": a.layers, "num_attention_heads": a.hidden // 128, "num_key_value_heads": max(1, a.hidden // 512), "head_dim": 128,
        "vocab_size": 258 + WORDS, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False,
        "torch_dtype": "float16", "bos_token_id": 256, "eos_token_id": 257} | quantization(a))
    dump(a.out, "generation_config.json", {"do_sample": False, "temperature": 0.0, "bos_token_id": 256, "eos_token_id": 257})
    dump(a.out, "tokenizer.json", tokenizer())
    dump(a.out, "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "model_max_length": 4096})


if __name__ == "__main__":
    main()
