"""The ids of quantised types in the fake vLLM.
SPDX-License-Identifier: Apache-2.0"""
import types

scalar_types = types.SimpleNamespace(**{name: types.SimpleNamespace(id=n) for name, n in
                                        (("uint4", 4), ("uint8", 8), ("uint4b8", 48), ("uint8b128", 8128))})
