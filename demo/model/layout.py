"""layout.py - the format of the demo's checkpoints: tokens of bytes, GPTQ packing, the files of a checkpoint.

SPDX-License-Identifier: Apache-2.0

Needs numpy only; tinylm.py has the model in torch. Sources of the layouts: GPT-2's encoder.py (order of the bytes), AutoGPTQ's qlinear modules and
vLLM's gptq.py (qweight, qzeros, scales, g_idx; "gptq" stores zero - 1, "gptq_v2" stores zero), Hugging Face's LlamaConfig and tokenizer.json.
"""
import json
import pathlib

import numpy as np
from safetensors.numpy import load_file, save_file

HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, FFN = 256, 4, 12, 3, 32, 640
VOCAB, CONTEXT, THETA, EPS = 264, 1024, 10000.0, 1e-6
SPECIALS = ["<|endoftext|>", "<|user|>", "<|assistant|>", "<|system|>"] + [f"<|reserved_{i}|>" for i in range(4)]
EOS, USER, ASSISTANT, SYSTEM = 256, 257, 258, 259

LINEARS = {  # name: (K inputs, N outputs)
    "self_attn.q_proj": (HIDDEN, HEADS * HEAD_DIM), "self_attn.k_proj": (HIDDEN, KV_HEADS * HEAD_DIM),
    "self_attn.v_proj": (HIDDEN, KV_HEADS * HEAD_DIM), "self_attn.o_proj": (HEADS * HEAD_DIM, HIDDEN),
    "mlp.gate_proj": (HIDDEN, FFN), "mlp.up_proj": (HIDDEN, FFN), "mlp.down_proj": (FFN, HIDDEN)}

FORMATS = {
    "gptq4": dict(bits=4, group_size=128, desc_act=False, sym=True, checkpoint_format="gptq"),
    "gptq8": dict(bits=8, group_size=32, desc_act=False, sym=True, checkpoint_format="gptq"),
    "gptq4-act": dict(bits=4, group_size=64, desc_act=True, sym=False, checkpoint_format="gptq_v2")}

CHAT_TEMPLATE = ("{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] }}{% endfor %}"
                 "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")

# ---- bytes and tokens ---------------------------------------------------------------------------------------------------------------------

PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
BYTE_OF_TOKEN = np.array(PRINTABLE + [b for b in range(256) if b not in PRINTABLE], dtype=np.uint8)
TOKEN_OF_BYTE = np.argsort(BYTE_OF_TOKEN).astype(np.int64)
# GPT-2 writes a byte that is not printable as a character from 256 on
CHAR_OF_TOKEN = [chr(int(b)) if i < len(PRINTABLE) else chr(256 + i - len(PRINTABLE)) for i, b in enumerate(BYTE_OF_TOKEN)]


def encode(data):
    """bytes or str -> int64 token ids; specials are not parsed."""
    data = data.encode() if isinstance(data, str) else data
    return TOKEN_OF_BYTE[np.frombuffer(data, dtype=np.uint8)]


def decode(ids):
    """token ids -> bytes; specials vanish."""
    return bytes(int(BYTE_OF_TOKEN[i]) for i in ids if i < 256)


# ---- packing ------------------------------------------------------------------------------------------------------------------------------

def pack_rows(q, bits):
    """q : [K, N] of 0..2^bits-1 -> int32 [K*bits/32, N]; value k of a word sits at bits `bits * (k % (32/bits))`."""
    per = 32 // bits
    words = np.zeros((q.shape[0] // per, q.shape[1]), dtype=np.uint32)
    for i in range(per):
        words |= q[i::per].astype(np.uint32) << np.uint32(bits * i)
    return words.view(np.int32)


def unpack_rows(words, bits):
    per = 32 // bits
    q = np.zeros((words.shape[0] * per, words.shape[1]), dtype=np.int64)
    for i in range(per):
        q[i::per] = (words.view(np.uint32) >> np.uint32(bits * i)) & np.uint32((1 << bits) - 1)
    return q


def pack_linear(q, zeros, scales, g_idx, fmt):
    """q : [K, N], zeros : [G, N] true zero points, scales : [G, N], g_idx : [K] -> the four tensors of a GPTQ layer."""
    stored = zeros - 1 if fmt["checkpoint_format"] == "gptq" else zeros
    return {"qweight": np.ascontiguousarray(pack_rows(q, fmt["bits"])),
            "qzeros": np.ascontiguousarray(pack_rows(stored.T, fmt["bits"]).T),
            "scales": np.ascontiguousarray(scales.astype(np.float16)), "g_idx": g_idx.astype(np.int32)}


def dequantise(qweight, qzeros, scales, g_idx, fmt):
    """The four tensors -> float32 weight [N, K], as torch.nn.Linear keeps it. Written from the format, not from the quantiser."""
    q = unpack_rows(qweight, fmt["bits"])
    zeros = unpack_rows(np.ascontiguousarray(qzeros.T), fmt["bits"]).T + (fmt["checkpoint_format"] == "gptq")
    return ((q - zeros[g_idx]).astype(np.float32) * scales.astype(np.float32)[g_idx]).T


# ---- the files ----------------------------------------------------------------------------------------------------------------------------

def write_json(path, value):
    path.write_text(json.dumps(value, indent=1, ensure_ascii=True) + "\n")


def write_checkpoint(folder, tensors, fmt, rescaled):
    """tensors : {name: array}; fmt : a value of FORMATS; rescaled : note for config.json on the function-preserving rescaling."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    save_file({k: np.ascontiguousarray(v) for k, v in sorted(tensors.items())}, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    quant = dict(quant_method="gptq", damp_percent=0.01, true_sequential=True, static_groups=False, lm_head=False, **fmt)
    write_json(folder / "quantize_config.json", quant)
    write_json(folder / "config.json", dict(
        architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM, hidden_act="silu", rms_norm_eps=EPS, rope_theta=THETA,
        rope_scaling=None, max_position_embeddings=CONTEXT, vocab_size=VOCAB, tie_word_embeddings=True, attention_bias=False,
        mlp_bias=False, bos_token_id=EOS, eos_token_id=EOS, torch_dtype="float16", use_cache=True, quantization_config=quant,
        tapedeck_rescaled=rescaled))
    write_json(folder / "generation_config.json", dict(bos_token_id=EOS, eos_token_id=EOS, do_sample=False))
    added = [dict(id=256 + i, content=s, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
             for i, s in enumerate(SPECIALS)]
    level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=False)
    vocab = {c: i for i, c in enumerate(CHAR_OF_TOKEN)} | {s: 256 + i for i, s in enumerate(SPECIALS)}
    write_json(folder / "tokenizer.json", dict(
        version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=None, pre_tokenizer=level, post_processor=None,
        decoder=level, model=dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None,
                                  fuse_unk=False, byte_fallback=False, ignore_merges=False, vocab=vocab, merges=[])))
    write_json(folder / "tokenizer_config.json", dict(
        tokenizer_class="PreTrainedTokenizerFast", bos_token=SPECIALS[0], eos_token=SPECIALS[0], add_bos_token=False,
        model_max_length=CONTEXT, clean_up_tokenization_spaces=False, chat_template=CHAT_TEMPLATE))


def read_checkpoint(folder):
    """-> ({name: float32 weights by the plain Llama names}, config); every GPTQ layer is dequantised."""
    folder = pathlib.Path(folder)
    config = json.loads((folder / "config.json").read_text())
    raw, out = load_file(folder / "model.safetensors"), {}
    for name, t in raw.items():
        base, _, part = name.rpartition(".")
        if part == "qweight":
            out[base + ".weight"] = dequantise(t, raw[base + ".qzeros"], raw[base + ".scales"], raw[base + ".g_idx"],
                                               config["quantization_config"])
        elif part == "weight":
            out[name] = t.astype(np.float32)
    return out, config
