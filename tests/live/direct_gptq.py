"""direct_gptq.py - the linear layers of a GPTQ model, multiplied by vLLM's gptq_gemm, for tests/fakes/fake_server.py --steps.

vLLM 0.26 serves no GPTQ model whose zero points differ. So the operator is called as its ExllamaLinearKernel does it: words in
the order of gptq_shuffle, rows of act-order by their permutation. Layers that read the same are called one after the other.
SPDX-License-Identifier: Apache-2.0

GPTQ_MODEL  a folder of random_gptq.py, 4 bits"""
import json
import os

import torch
from safetensors.torch import load_file
from vllm import _custom_ops as ops

MODEL = os.environ["GPTQ_MODEL"]
config = json.load(open(f"{MODEL}/config.json"))
MOST = 50                                   # rows; beyond that vLLM multiplies by cuBLAS

made = torch.Generator(device="cuda").manual_seed(1)
tensors = load_file(f"{MODEL}/model.safetensors")


def load(name):
    words, zeros, scales = (tensors[f"{name}.{part}"].contiguous().cuda() for part in ("qweight", "qzeros", "scales"))
    perm = torch.empty(0, dtype=torch.int32, device="cuda")
    if config["quantization_config"]["desc_act"]:
        perm = torch.argsort(tensors[f"{name}.g_idx"].cuda(), stable=True).to(torch.int32)
    ops.gptq_shuffle(words, perm, 4)
    return words, zeros, scales, perm


NAMES = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]
layers = [{name: load(f"model.layers.{i}.{name}") for name in NAMES} for i in range(config["num_hidden_layers"])]


def multiply(x, weights):
    return ops.gptq_gemm(x, *weights, True, False, 4)


def normed(x):
    return (x / x.float().pow(2).mean(-1, keepdim=True).sqrt().clamp(min=1e-3)).to(torch.float16)


def gpu_model_step(rows):
    """One step of so many rows, MOST at most. 0, as the fake server expects it."""
    x = torch.randn([min(rows, MOST), config["hidden_size"]], generator=made, device="cuda").to(torch.float16)
    for layer in layers:
        q, _, _ = (multiply(x, layer["self_attn." + name]) for name in ("q_proj", "k_proj", "v_proj"))
        x = normed(multiply(normed(q), layer["self_attn.o_proj"]))
        gate, up = multiply(x, layer["mlp.gate_proj"]), multiply(x, layer["mlp.up_proj"])
        x = normed(multiply(normed(torch.nn.functional.silu(gate) * up), layer["mlp.down_proj"]))
    torch.cuda.synchronize()
    return 0
