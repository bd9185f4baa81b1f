"""tinylm.py - the demo model in torch: the plain forward pass, greedy sampling, detection of loops, and loading a checkpoint.

SPDX-License-Identifier: Apache-2.0

The forward pass is Hugging Face's LlamaForCausalLM: RMSNorm, rotary positions by rotate_half, grouped-query attention, SwiGLU, tied embedding.
`half_io` rounds what enters and leaves every linear layer to f16, as the demo server does; all else stays in the type of the weights.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

from layout import CONTEXT, EOS, EPS, HEAD_DIM, HEADS, HIDDEN, KV_HEADS, LAYERS, LINEARS, THETA, VOCAB


class Linear(nn.Linear):
    half_io = False

    def __init__(self, k, n):
        super().__init__(k, n, bias=False)

    def forward(self, x):
        if not self.half_io:
            return super().forward(x)
        return F.linear(x.half().float(), self.weight).half().float()


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPS)).to(x.dtype) * self.weight


def rotate(x, at):
    """x : [B, heads, T, HEAD_DIM], at : [T] positions."""
    freq = THETA ** (-torch.arange(0, HEAD_DIM, 2, device=x.device, dtype=torch.float32) / HEAD_DIM)
    angle = torch.outer(at.float(), freq).repeat(1, 2)
    a, b = x.float().chunk(2, -1)
    return (x.float() * angle.cos() + torch.cat((-b, a), -1) * angle.sin()).to(x.dtype)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        for n in "qkvo":
            setattr(self, n + "_proj", Linear(*LINEARS[f"self_attn.{n}_proj"]))

    def forward(self, x, past, at):
        b, t, _ = x.shape
        q = rotate(self.q_proj(x).view(b, t, HEADS, HEAD_DIM).transpose(1, 2), at)
        k = rotate(self.k_proj(x).view(b, t, KV_HEADS, HEAD_DIM).transpose(1, 2), at)
        v = self.v_proj(x).view(b, t, KV_HEADS, HEAD_DIM).transpose(1, 2)
        if past is not None:  # [keys, values], grown in place
            if past:
                k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
            past[:] = [k, v]
        group = HEADS // KV_HEADS
        out = F.scaled_dot_product_attention(q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), is_causal=t > 1)
        return self.o_proj(out.transpose(1, 2).reshape(b, t, HEADS * HEAD_DIM))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        for n in ("gate", "up", "down"):
            setattr(self, n + "_proj", Linear(*LINEARS[f"mlp.{n}_proj"]))

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.self_attn, self.mlp = Attention(), MLP()
        self.input_layernorm, self.post_attention_layernorm = Norm(), Norm()
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, past, at):
        x = x + self.dropout(self.self_attn(self.input_layernorm(x), past, at))
        return x + self.dropout(self.mlp(self.post_attention_layernorm(x)))


class TinyLM(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCAB, HIDDEN)
        self.layers = nn.ModuleList(Layer(dropout) for _ in range(LAYERS))
        self.norm = Norm()
        for name, p in self.named_parameters():
            if p.dim() == 2:
                shrink = math.sqrt(2 * LAYERS) if "o_proj" in name or "down_proj" in name else 1.0
                nn.init.normal_(p, std=0.02 if "embed" in name else 1 / math.sqrt(p.shape[1]) / shrink)

    def forward(self, ids, cache=None):
        """ids : [B, T] -> logits [B, T, VOCAB]. cache : a list of LAYERS lists, grown in place; a new prefix only when it is empty."""
        start = cache[0][0].shape[2] if cache and cache[0] else 0
        at = torch.arange(start, start + ids.shape[1], device=ids.device)
        x = self.embed_tokens(ids)
        for i, layer in enumerate(self.layers):
            x = layer(x, cache[i] if cache else None, at)
        return F.linear(self.norm(x), self.embed_tokens.weight)


def load(model, tensors):
    """tensors : {name as in the checkpoint: array of float32}."""
    model.load_state_dict({k.removeprefix("model."): torch.as_tensor(v) for k, v in tensors.items()})
    return model


def set_half_io(model, on):
    for m in model.modules():
        if isinstance(m, Linear):
            m.half_io = on
    return model


@torch.no_grad()
def greedy(model, prompts, count):
    """prompts : [B, T] ids of one length -> [B, count] ids. Does not stop at the end-of-text token."""
    cache = [[] for _ in range(LAYERS)]
    ids, out = prompts, []
    for _ in range(min(count, CONTEXT - prompts.shape[1])):
        ids = model(ids, cache)[:, -1:].argmax(-1)
        out.append(ids)
    return torch.cat(out, 1)


def until_end(ids):
    """Cut a list of ids at the first end of text."""
    return ids[:ids.index(EOS)] if EOS in ids else ids


def loops(ids, window=64, period=32):
    """Do the last `window` ids repeat with some period <= `period`?"""
    tail = ids[-window:]
    return len(tail) == window and any(tail[p:] == tail[:-p] for p in range(1, period + 1))


def stutters(ids, length=16):
    """Is there a run of one token, at least `length` long?"""
    return any(len(set(ids[i:i + length])) == 1 for i in range(len(ids) - length + 1))
