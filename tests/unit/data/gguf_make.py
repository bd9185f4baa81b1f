# gguf_make.py - GGUF files written by gguf_make.py (llama.cpp's own writer), and what gguf-py's reader says of them, for test_gguf.c.
# usage: python3 gguf_make.py FOLDER   (pip install gguf==0.19.0 xxhash; writes sample.gguf, split-0000?-of-00002.gguf, gguf_sample.h)
# SPDX-License-Identifier: Apache-2.0
import os
import sys

import gguf
import numpy as np
import xxhash
from gguf.constants import GGMLQuantizationType as T, GGML_QUANT_SIZES

out = sys.argv[1]
rng = np.random.default_rng(7)


def tensors():
    for t in T:
        if t not in GGML_QUANT_SIZES or t is T.Q8_1:  # never in files; gguf 0.19.0 still has its size of 2023
            continue
        block, size = GGML_QUANT_SIZES[t]
        shape = (3, 2 * block) if block > 1 else (2, 3, 5)
        blocks = int(np.prod(shape)) // block
        raw = rng.integers(0, 256, blocks * size, dtype=np.uint8)
        yield f"blk.0.{t.name.lower()}.weight", t, shape, raw.reshape(*shape[:-1], shape[-1] // block * size)


def write(path, some, split=None):
    w = gguf.GGUFWriter(path, "llama")
    if split:
        w.add_uint16("split.no", split[0])
        w.add_uint16("split.count", split[1])
    w.add_string("general.name", "a sample")
    w.add_uint32("llama.context_length", 4096)
    w.add_float32("llama.rope.freq_base", 10000.5)
    w.add_bool("yes", True)
    w.add_int32("minus", -7)
    w.add_uint64("large", 2**63 + 5)
    w.add_array("tokens", ["a", "bc", "", "def"])
    w.add_array("numbers", [1, 2, 3])
    for name, t, shape, raw in some:
        w.add_tensor(name, raw, raw_dtype=t)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


all_ = list(tensors())
write(f"{out}/sample.gguf", all_)
write(f"{out}/split-00001-of-00002.gguf", all_[:2], (0, 2))
write(f"{out}/split-00002-of-00002.gguf", all_[2:5], (1, 2))
with open(f"{out}/gguf_sample.h", "w") as f:
    f.write("/* gguf_sample.h - what gguf-py's reader says of sample.gguf; written by gguf_make.py.\n * SPDX-License-Identifier: Apache-2.0 */\n")
    for t in sorted(gguf.GGUFReader(f"{out}/sample.gguf").tensors, key=lambda t: t.name):
        ne = list(map(int, t.shape)) + [1] * (4 - len(t.shape))
        f.write(f'{{"{t.name}", "{t.tensor_type.name}", {len(t.shape)}, {{{", ".join(map(str, ne))}}}, {t.n_bytes}, '
                f"0x{xxhash.xxh3_64_hexdigest(t.data.tobytes())}u}},\n")
