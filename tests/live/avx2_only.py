"""avx2_only.py - makes vLLM believe that this CPU has AVX2 only: torch.cpu reports neither AVX-512
nor AMX.

Copy it as sitecustomize.py into a folder of PYTHONPATH; it changes the module torch.cpu after its
import. Use it together with ATEN_CPU_CAPABILITY=avx2 and ONEDNN_MAX_CPU_ISA=AVX2.
SPDX-License-Identifier: Apache-2.0
"""
import importlib.abc
import importlib.util
import sys


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != "torch.cpu":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            for test in dir(module):
                if "avx512" in test or "amx" in test:
                    setattr(module, test, lambda *_: False)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder())
