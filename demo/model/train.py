#!/usr/bin/env python3
"""train.py - train the demo model on the text of corpus.py.

SPDX-License-Identifier: Apache-2.0

Inputs:  CORPUS/train.txt, CORPUS/heldout.txt.
Output:  OUT, a torch file {"weights": state of TinyLM in float32, "log": [...]}, written every 500 steps.

Two stages. First the usual one: next-byte loss, AdamW, cosine schedule. Then a short one against loops, because a model of this size under
greedy decoding soon repeats itself, and then a tool that watches for collapsed text could not tell a healthy server from a broken one: the
model continues prompts greedily, and where it repeats a phrase of its own recent text, the first byte of each repeated word is made less likely
(unlikelihood training, Welleck et al., arXiv 1908.04319, sequence level). Each such step also takes the usual loss on a batch of the corpus.
"""
import argparse
import json
import math
import pathlib
import time

import numpy as np
import torch
import torch.nn.functional as F

from layout import ASSISTANT, EOS, TOKEN_OF_BYTE, USER, encode
from tinylm import TinyLM, greedy, loops

SPACES = torch.tensor(encode(" \n"))


def tokens_of(path):
    """Text of corpus.py -> int16 ids; form feed, \\x01, \\x02 are the special tokens."""
    table = TOKEN_OF_BYTE.copy()
    table[[0x0c, 0x01, 0x02]] = EOS, USER, ASSISTANT
    data = np.frombuffer(path.read_bytes() + b"\x0c", dtype=np.uint8)
    return torch.from_numpy(table[data].astype(np.int16))


def crops(data, batch, length, rng):
    at = torch.randint(len(data) - length - 1, (batch,), generator=rng, device=data.device)
    return data[at[:, None] + torch.arange(length + 1, device=data.device)].long()


def next_byte_loss(model, x):
    return F.cross_entropy(model(x[:, :-1]).float().flatten(0, 1), x[:, 1:].flatten())


def repeats(ids, phrase=12, reach=96):
    """ids : [B, T] -> bool [B, T]: the `phrase` bytes up to and with this one stood up to `reach` bytes before, and either a word starts here
    or they are one, two or three bytes over and over (no word need start in those)."""
    again, stutter = torch.zeros_like(ids, dtype=torch.bool), torch.zeros_like(ids, dtype=torch.bool)
    for lag in range(1, reach + 1):
        same = F.pad((ids[:, lag:] == ids[:, :-lag]).int(), (lag, 0)).cumsum(1)
        run = same - F.pad(same, (phrase, 0))[:, :ids.shape[1]]
        again |= run == phrase
        if lag <= 3:
            stutter |= run == phrase
    start = torch.isin(F.pad(ids, (1, 0))[:, :-1], SPACES.to(ids.device))
    return again & start | stutter


def unlikelihood(model, prompts, length):
    """Continue the prompts greedily, then -log(1 - p) of the bytes that begin repeated words. -> (loss, share of looping continuations)"""
    model.eval()
    made = greedy(model, prompts, length)
    model.train()
    full = torch.cat((prompts, made), 1)
    bad = repeats(full)[:, prompts.shape[1]:]
    logits = model(full[:, :-1])[:, prompts.shape[1] - 1:].float()
    p = logits.softmax(-1).gather(-1, made[..., None])[..., 0]
    loss = -(torch.log((1 - p).clamp_min(1e-4)) * bad).sum() / bad.sum().clamp_min(1)
    return loss, sum(loops(row) for row in made.tolist()) / len(made)


@torch.no_grad()
def evaluate(model, data, length, count=64):
    model.eval()
    step = max(1, (len(data) - length - 1) // count)
    x = torch.stack([data[i * step:i * step + length + 1].long() for i in range(count)])
    loss = sum(next_byte_loss(model, part).item() for part in x.split(16)) / len(x.split(16))
    model.train()
    return loss


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("corpus", type=pathlib.Path)
    ap.add_argument("out", type=pathlib.Path)
    ap.add_argument("--device", default="cuda", help="cuda, or cpu (slow: only for trying it out)")
    ap.add_argument("--steps", type=int, default=6000)
    ap.add_argument("--loop-steps", type=int, default=300, help="steps of the stage against loops")
    ap.add_argument("--minutes", type=float, default=1e9, help="end stage one early, with the schedule bent to fit")
    ap.add_argument("--batch", type=int, default=128)
    ap.add_argument("--length", type=int, default=1024)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--dropout", type=float, default=0.05)
    args = ap.parse_args()

    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    rng = torch.Generator(args.device).manual_seed(1)
    train, held = (tokens_of(args.corpus / f).to(args.device) for f in ("train.txt", "heldout.txt"))
    model = TinyLM(args.dropout).to(args.device)
    matrices = [p for p in model.parameters() if p.dim() == 2]
    rest = [p for p in model.parameters() if p.dim() != 2]
    opt = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.05}, {"params": rest, "weight_decay": 0.0}], lr=args.lr, betas=(0.9, 0.95),
                            fused=args.device == "cuda")
    fast = torch.compile(model) if args.device == "cuda" else model
    amp = torch.autocast(args.device, torch.bfloat16, enabled=args.device == "cuda")
    log, began, total = [], time.time(), args.steps + args.loop_steps

    def note(step, **values):
        log.append(dict(step=step, seconds=round(time.time() - began, 1), **{k: round(v, 4) for k, v in values.items()}))
        print(json.dumps(log[-1]), flush=True)
        torch.save({"weights": model.state_dict(), "log": log, "args": {k: str(v) for k, v in vars(args).items()}}, args.out)

    def update(loss):
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()

    for step in range(args.steps):
        done = max(step / args.steps, (time.time() - began) / 60 / args.minutes)
        if done >= 1:
            break
        for group in opt.param_groups:
            group["lr"] = args.lr * min(1, (step + 1) / 200) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * done)))
        with amp:
            loss = next_byte_loss(fast, crops(train, args.batch, args.length, rng))
        update(loss)
        if step % 500 == 0:
            with amp:
                note(step, train=loss.item(), heldout=evaluate(model, held, args.length))
    for step in range(args.loop_steps):
        for group in opt.param_groups:
            group["lr"] = args.lr * 0.1 * (1 - step / args.loop_steps)
        with amp:
            plain = next_byte_loss(model, crops(train, args.batch // 2, args.length, rng))
            prompts = crops(train, args.batch, 47, rng)
            prompts[::8] = torch.randint(94, prompts[::8].shape, generator=rng, device=args.device)  # printable noise, so that it copes with it
            unlikely, share = unlikelihood(model, prompts, 160)
        update(plain + 0.5 * unlikely)
        if step % 50 == 0:
            with amp:
                note(args.steps + step, train=plain.item(), unlikely=unlikely.item(), looping=share, heldout=evaluate(model, held, args.length))
    note(total, heldout=evaluate(model, held, args.length))


if __name__ == "__main__":
    main()
