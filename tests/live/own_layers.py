"""own_layers.py - the layers of a server that computes with an engineer's own operators (own_operators.cu), for
tests/fakes/fake_server.py --steps: four layers, each a product by a 4-bit weight and one by a float16 weight.
SPDX-License-Identifier: Apache-2.0

OWN_OPERATORS  the library, built"""
import os

import torch

LAYERS, K, N, GROUP = 4, 256, 512, 64

torch.ops.load_library(os.environ["OWN_OPERATORS"])
own = torch.ops.tapedeck_own
made = torch.Generator(device="cuda").manual_seed(1)


def words(rows, cols):
    return torch.randint(-2 ** 31, 2 ** 31 - 1, (rows, cols), generator=made, device="cuda", dtype=torch.int64).to(torch.int32)


def halves(*shape):
    return torch.randn(shape, generator=made, device="cuda").to(torch.float16)


layers = [(words(K // 8, N), (halves(K // GROUP, N).abs() + 0.1) * 0.01, words(K // GROUP, N // 8), halves(N) if i % 2 else None, halves(N, K) * 0.05)
          for i in range(LAYERS)]


def gpu_model_step(rows):
    """One step of so many rows. 0, as the fake server expects it."""
    x = halves(rows, K)
    for w, s, z, bias, back in layers:
        y = torch.empty([x.shape[0], N], dtype=torch.float16, device="cuda")
        own.w4a16_gemm(x, w, s, z, GROUP, True, 0.5, bias, y)
        x = own.linear(y, back)
        x = (x / x.abs().amax().clamp(min=1e-3)).to(torch.float16)
    torch.cuda.synchronize()
    return 0
