"""A fault in an operator of vLLM's, for a Python that has this folder in its PYTHONPATH.
SPDX-License-Identifier: Apache-2.0

TD_FAULT       column: the last column of C is 1 % too large; row: the last row of C is 0; none: nothing is done
TD_OPERATORS   the operators of namespaces _C, _C_cache_ops and _moe_C that have it, torch's linear and _scaled_mm
               (default: DEFAULT)"""
import os

DEFAULT = "machete_mm marlin_gemm gptq_gemm moe_wna16_marlin_gemm cutlass_scaled_mm cutlass_scaled_mm_azp cutlass_moe_mm linear _scaled_mm"
FAULT = os.environ.get("TD_FAULT", "")


def spoil(c):
    if FAULT == "column":
        c[:, -1] *= 1.01
    elif FAULT == "row":
        c[-1] = 0
    return c


def written(schema, args, named):
    """What a call of an operator that returns nothing writes: its first argument that the schema says is written."""
    for at, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            return named[argument.name] if argument.name in named else args[at]


class Spoiled:
    def __init__(self, call):
        self.call, self._schema, self.default = call, call._schema, self

    def __call__(self, *args, **named):
        result = self.call(*args, **named)
        spoil(written(self._schema, args, named) if result is None else result)
        return result


if FAULT:
    import torch

    names = os.environ.get("TD_OPERATORS", DEFAULT).split()
    for space, name in ((torch.nn.functional, "linear"), (torch, "_scaled_mm")):
        if name in names:
            setattr(space, name, lambda *args, call=getattr(space, name), **named: spoil(call(*args, **named)))
    load = torch.ops.load_library

    def load_and_spoil(path):
        load(path)
        for space in (torch.ops._C, torch.ops._C_cache_ops, torch.ops._moe_C):
            for name in names:
                if hasattr(space, name) and not isinstance(getattr(space, name), Spoiled):
                    setattr(space, name, Spoiled(getattr(space, name).default))

    torch.ops.load_library = load_and_spoil
