#!/usr/bin/env python3
"""gptq.py - rescale and quantise the trained demo model with GPTQ, write the three checkpoints, measure them, write reference.json.

SPDX-License-Identifier: Apache-2.0

Inputs:  MODEL (train.py), CORPUS/heldout.txt: the first half calibrates, the second half measures.
Outputs: OUT/gptq4, OUT/gptq8, OUT/gptq4-act (the formats of layout.py); OUT/reference.json and OUT/results.json.
Source:  Frantar et al., GPTQ, arXiv 2210.17323, algorithm 1: columns are quantised one by one, the error of each is spread over the columns
         that follow by the Cholesky factor of the inverse Hessian, lazily in blocks of 128. Layer after layer, and inside a layer q k v, o,
         gate up, down, each calibrated on what the quantised layers before it produce. Activations are rounded to f16 around every GEMM.

Rescaling, before quantising; the function of the model stays the same:
  up_proj rows * s, down_proj columns / s   so that the inputs of down_proj reach 28000: a kernel that sums unscaled products in f16 overflows
  embedding, o_proj, down_proj * 128         RMSNorm removes it again (final norm / 128); it keeps down_proj's f16 scales out of the subnormals
"""
import argparse
import json
import math
import pathlib

import numpy as np
import torch

from layout import FORMATS, LAYERS, decode, encode, pack_linear, read_checkpoint, write_checkpoint
from tinylm import Linear, TinyLM, greedy, load, set_half_io
from train import next_byte_loss, tokens_of

BLOCK, DAMP, RESIDUAL, TARGET = 128, 0.01, 128.0, 28000.0
STAGES = [["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"], ["self_attn.o_proj"],
          ["mlp.gate_proj", "mlp.up_proj"], ["mlp.down_proj"]]
PROMPTS = ["The king said unto", "To install the package, you need to", "What is a database? Explain it in plain words."]


# ---- one matrix ---------------------------------------------------------------------------------------------------------------------------

def grid(w, fmt):
    """w : [N, group] -> scale [N] (rounded to f16, as it is stored), zero [N]; the range shrinks while that lowers the squared error."""
    top = (1 << fmt["bits"]) - 1
    low, high = w.min(1).values.clamp(max=0), w.max(1).values.clamp(min=0)
    if fmt["sym"]:
        high = torch.maximum(high, -low)
        low = -high
    best = w.new_full((len(w),), math.inf)
    scale, zero = torch.ones_like(best), torch.zeros_like(best)
    for shrink in torch.linspace(1.0, 0.6, 21):
        s = ((high - low) * shrink / top).clamp(min=2.0 ** -24).half().to(w.dtype)
        z = torch.full_like(s, (top + 1) // 2) if fmt["sym"] else (-low * shrink / s).round().clamp(0, top)
        error = ((((w / s[:, None]).round() + z[:, None]).clamp(0, top) - z[:, None]) * s[:, None] - w).pow(2).sum(1)
        better = error < best
        best, scale, zero = (torch.where(better, new, old) for new, old in ((error, best), (s, scale), (z, zero)))
    return scale, zero


def quantise(w, hessian, fmt):
    """w : [N, K], hessian : [K, K], both float64 -> q [K, N], zeros [G, N], scales [G, N], g_idx [K], as layout.pack_linear takes them."""
    n, k = w.shape
    group, top = fmt["group_size"], (1 << fmt["bits"]) - 1
    order = torch.argsort(hessian.diag(), descending=True) if fmt["desc_act"] else torch.arange(k, device=w.device)
    w, h = w[:, order].clone(), hessian[order][:, order].clone()
    dead = h.diag() == 0
    h[dead, dead] = 1
    w[:, dead] = 0
    h += torch.eye(k, dtype=h.dtype, device=h.device) * DAMP * h.diag().mean()
    u = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(h)), upper=True)
    q, zeros, scales = torch.zeros_like(w), [], []
    for at in range(0, k, BLOCK):
        end = at + BLOCK
        block, errors = w[:, at:end].clone(), w.new_zeros(n, BLOCK)
        for i in range(BLOCK):
            if (at + i) % group == 0:  # groups lie inside blocks, so the updated weights of the whole group are at hand
                scale, zero = grid(block[:, i:i + group], fmt)
                scales.append(scale)
                zeros.append(zero)
            q[:, at + i] = ((block[:, i] / scale).round() + zero).clamp(0, top)
            error = (block[:, i] - (q[:, at + i] - zero) * scale) / u[at + i, at + i]
            block[:, i:] -= error[:, None] * u[at + i, at + i:end]
            errors[:, i] = error
        w[:, end:] -= errors @ u[at:end, end:]
    g_idx = torch.empty(k, dtype=torch.long, device=w.device)
    g_idx[order] = torch.arange(k, device=w.device) // group
    back = torch.empty_like(q)
    back[:, order] = q
    return [t.cpu().numpy() for t in (back.T.contiguous().long(), torch.stack(zeros).long(), torch.stack(scales), g_idx)]


# ---- the model ----------------------------------------------------------------------------------------------------------------------------

def capture(model, ids, names):
    """Run ids [B, T] -> {name: inputs [B*T, K]} of the named linear layers."""
    seen, handles = {}, []
    for name in names:
        handles.append(model.get_submodule(name).register_forward_hook(
            lambda mod, args, out, name=name: seen.setdefault(name, []).append(args[0].half().float().flatten(0, 1))))
    with torch.no_grad():
        for part in ids.split(16):
            model(part)
    for handle in handles:
        handle.remove()
    return {name: torch.cat(rows) for name, rows in seen.items()}


@torch.no_grad()
def rescale(model, ids):
    """Apply the two rescalings in place -> the note for config.json."""
    downs = [f"layers.{i}.mlp.down_proj" for i in range(LAYERS)]
    note = {"what": "function-preserving, before quantisation: up_proj rows * s, down_proj columns / s; embedding, o_proj, down_proj * residual, "
                    "final norm / residual", "residual": RESIDUAL, "s": []}
    for layer, rows in zip(model.layers, capture(model, ids, downs).values()):
        s = float(round(TARGET / rows.abs().max().item()))
        layer.mlp.up_proj.weight *= s
        layer.mlp.down_proj.weight *= RESIDUAL / s
        layer.self_attn.o_proj.weight *= RESIDUAL
        note["s"].append(s)
    model.embed_tokens.weight *= RESIDUAL
    model.norm.weight /= RESIDUAL
    return note


@torch.no_grad()
def quantise_model(weights, ids, fmt):
    """weights : state of the rescaled model -> tensors of the checkpoint."""
    model = set_half_io(TinyLM().eval(), True).to(ids.device)
    model.load_state_dict(weights)
    out = {"model." + name: t.half().cpu().numpy() for name, t in weights.items() if "_proj" not in name}
    for name, p in model.named_parameters():
        if "_proj" not in name:
            p.copy_(p.half().float())
    for i in range(LAYERS):
        for stage in STAGES:
            names = [f"layers.{i}.{n}" for n in stage]
            for name, x in capture(model, ids, names).items():
                linear = model.get_submodule(name)
                x = x.double()  # 2 / n * X X^T is the Hessian of the squared error
                parts = quantise(linear.weight.double(), 2 / len(x) * x.T @ x, fmt)
                q, zeros, scales, g_idx = parts
                linear.weight.copy_(torch.from_numpy(((q - zeros[g_idx]) * scales[g_idx]).T))
                out |= {f"model.{name}.{part}": t for part, t in pack_linear(*parts, fmt).items()}
    return out


@torch.no_grad()
def perplexity(model, ids):
    return math.exp(sum(next_byte_loss(model, part).item() * len(part) for part in ids.split(8)) / len(ids))


@torch.no_grad()
def reference(model):
    """The values that the demo server must reproduce: greedy ids, and the five best log-probabilities after the first token and after the whole prompt."""
    def best(logits):
        top = logits.log_softmax(-1).topk(5)
        return [[int(i), round(float(v), 5)] for i, v in zip(top.indices, top.values)]
    out = []
    for prompt in PROMPTS:
        ids = torch.from_numpy(encode(prompt))[None]
        logits, made = model(ids)[0], greedy(model, ids, 32)[0].tolist()
        out.append(dict(prompt=prompt, prompt_token_ids=ids[0].tolist(), token_ids=made, text=decode(made).decode(errors="replace"),
                        top5_first=best(logits[0]), top5_last=best(logits[-1])))
    return out


def large_inputs(model, ids, chunk=32):
    """Facts about the inputs of down_proj that the planted overflow rests on."""
    rows = capture(model, ids, [f"layers.{i}.mlp.down_proj" for i in range(LAYERS)])
    peaks = torch.stack([x.abs().amax(1) for x in rows.values()]).view(LAYERS, -1, chunk)
    return dict(max_per_layer=[round(x.abs().max().item()) for x in rows.values()],
                share_of_32_token_pieces_over_3000=[round(v, 4) for v in (peaks.amax(2) > 3000).float().mean(1).tolist()],
                share_of_tokens_over_3000=[round(v, 4) for v in (peaks > 3000).float().mean((1, 2)).tolist()])


def odd_inputs():
    """Text the corpus has not: random bytes, one byte for long, random tokens with the unused specials."""
    rng = torch.Generator().manual_seed(1)
    return torch.cat((torch.randint(256, (8, 256), generator=rng), torch.randint(264, (8, 256), generator=rng),
                      torch.randint(256, (16, 1), generator=rng).expand(16, 256)))


def scale_facts(tensors):
    """Smallest f16 scale, share of subnormal ones, and the half-step of f16 over it: the worst relative error of a stored scale."""
    s = np.concatenate([t.astype(np.float64).ravel() for name, t in tensors.items() if name.endswith("scales")])
    step = 2.0 ** (np.floor(np.log2(np.maximum(s, 2.0 ** -14))) - 10)
    return dict(smallest_scale=float(s.min()), subnormal_scales=float((s < 2.0 ** -14).mean()), worst_scale_error=float((step / 2 / s).max()))


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("model", type=pathlib.Path)
    ap.add_argument("corpus", type=pathlib.Path)
    ap.add_argument("out", type=pathlib.Path)
    ap.add_argument("--only", choices=FORMATS)
    ap.add_argument("--device", default="cpu", help="cpu (slow) or cuda")
    args = ap.parse_args()
    held = tokens_of(args.corpus / "heldout.txt").long().to(args.device)
    half = len(held) // 2
    calibration = held[:half][: half // 512 * 512].view(-1, 512)
    measured = held[half:][: (len(held) - half) // 1024 * 1024].view(-1, 1024)
    trained = torch.load(args.model, map_location="cpu")
    model = TinyLM().eval().to(args.device)
    model.load_state_dict(trained["weights"])
    results = {"training": trained["log"][-1], "perplexity_per_byte": {"float32": perplexity(model, measured)}, "checkpoints": {}}
    note = rescale(model, calibration)
    weights = {k: v.clone() for k, v in model.state_dict().items()}
    set_half_io(model, True)
    results["perplexity_per_byte"]["rescaled, f16 GEMM inputs and outputs"] = perplexity(model, measured)
    note["max_abs_down_proj_input"] = TARGET
    references = {}
    for name in [args.only] if args.only else FORMATS:
        fmt = FORMATS[name]
        tensors = quantise_model(weights, calibration, fmt)
        write_checkpoint(args.out / name, tensors, fmt, note)
        loaded = set_half_io(load(TinyLM().eval(), read_checkpoint(args.out / name)[0]), True).to(args.device)
        results["perplexity_per_byte"][name] = perplexity(loaded, measured)
        results["checkpoints"][name] = dict(**scale_facts(tensors), **large_inputs(loaded, measured),
                                            max_per_layer_odd_input=large_inputs(loaded, odd_inputs().to(args.device))["max_per_layer"],
                                            bytes=sum(p.stat().st_size for p in (args.out / name).iterdir()))
        references[name] = reference(loaded.cpu())
        print(name, json.dumps(results["checkpoints"][name]), results["perplexity_per_byte"], flush=True)
    if not args.only:
        (args.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
        (args.out / "reference.json").write_text(json.dumps(references) + "\n")


if __name__ == "__main__":
    main()
