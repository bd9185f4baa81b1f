"""direct_experts.py - the experts of a model, multiplied by vLLM's moe_wna16_gemm, for tests/fakes/fake_server.py --steps.

vLLM 0.26 takes this operator for no model on Hopper. So its own fused_experts() is called, as its MoeWNA16Method does: it
asks moe_align_block_size for the blocks, and chooses the sizes by which the operator cuts its work. Only the layout of the
weights (quantization/moe_wna16.py) is made here. Needs a vLLM with its _moe_C library.
SPDX-License-Identifier: Apache-2.0

EXPERTS_MODEL  a folder of random_gptq.py --experts, 4 bits, GPTQ or --awq"""
import json
import os

import torch
from safetensors.torch import load_file
from vllm.model_executor.layers.fused_moe import fused_experts
from vllm.model_executor.layers.fused_moe.config import int4_w4a16_moe_quant_config

MODEL = os.environ["EXPERTS_MODEL"]
config = json.load(open(f"{MODEL}/config.json"))
EXPERTS, TOP_K, HIDDEN = config["num_local_experts"], config["num_experts_per_tok"], config["hidden_size"]
GROUP = config["quantization_config"]["group_size"]
MOST = EXPERTS * 6 // TOP_K                 # rows; beyond that vLLM multiplies by a kernel of Triton's
AWQ_PLACES = [0, 4, 1, 5, 2, 6, 3, 7]       # where a word of AWQ's holds its columns

made = torch.Generator(device="cuda").manual_seed(1)
tensors = load_file(f"{MODEL}/model.safetensors")


def in_columns(words):
    """AWQ's words, eight columns each, as numbers of 4 bits: [columns, rows]."""
    numbers = (words.view(torch.uint8)[..., None] >> torch.tensor([0, 4], dtype=torch.uint8)) & 15
    return numbers.view(len(words), -1, 8)[:, :, AWQ_PLACES].reshape(len(words), -1).T


def linear(name):
    """qweight [n, k / 2], scales [n, groups], and zero points [n / 2, groups] or None, which are 8."""
    words, scales = tensors[name + ".qweight"], tensors[name + ".scales"].T
    if config["quantization_config"]["quant_method"] == "gptq":
        return words.T.contiguous().view(torch.uint8), scales, None
    q, zeros = in_columns(words), in_columns(tensors[name + ".qzeros"])
    return q[:, ::2] | q[:, 1::2] << 4, scales, zeros[::2] | zeros[1::2] << 4


def side_by_side(parts):
    return None if parts[0] is None else torch.cat(parts)


def stack(layer, *names):
    """What all experts of a layer read, on the GPU; several linear layers of an expert side by side."""
    experts = [[side_by_side(p) for p in zip(*(linear(f"{layer}.experts.{e}.{n}") for n in names))] for e in range(EXPERTS)]
    return [None if p[0] is None else torch.stack(p).contiguous().cuda() for p in zip(*experts)]


def load(layer):
    (w13, scales13, zeros13), (w2, scales2, zeros2) = stack(layer, "w1", "w3"), stack(layer, "w2")
    return w13, w2, int4_w4a16_moe_quant_config(scales13, scales2, zeros13, zeros2, block_shape=[0, GROUP])


layers = [load(f"model.layers.{i}.block_sparse_moe") for i in range(config["num_hidden_layers"])]


def gpu_model_step(rows):
    """One step of so many rows, MOST at most; each layer has a routing of its own. 0, as the fake server expects it."""
    x = torch.randn([min(rows, MOST), HIDDEN], generator=made, device="cuda").to(torch.float16)
    for w13, w2, quantised in layers:
        weights, ids = torch.rand([len(x), EXPERTS], generator=made, device="cuda").softmax(-1).topk(TOP_K)
        x = fused_experts(x, w13, w2, topk_weights=weights, topk_ids=ids.to(torch.int32), quant_config=quantised)
        x = (x / x.float().pow(2).mean(-1, keepdim=True).sqrt().clamp(min=1e-3)).to(torch.float16)
    torch.cuda.synchronize()
    return 0
