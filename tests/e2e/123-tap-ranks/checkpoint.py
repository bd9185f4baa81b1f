# checkpoint.py - write the demo's gptq4 with groups of 64 instead of 128, each scale and zero point stored twice:
# the same weights, with rows that two ranks can share.
# usage: checkpoint.py FROM TO
# SPDX-License-Identifier: Apache-2.0
import json, os, struct, sys

raw = open(sys.argv[1] + "/model.safetensors", "rb").read()
n = struct.unpack_from("<Q", raw)[0]
head, data, out = json.loads(raw[8:8 + n]), raw[8 + n:], b""
for name in [k for k in head if k != "__metadata__"]:
    t = head[name]
    bytes_ = data[t["data_offsets"][0]:t["data_offsets"][1]]
    if name.endswith((".scales", ".qzeros")):
        row = len(bytes_) // t["shape"][0]
        bytes_ = b"".join(bytes_[i:i + row] * 2 for i in range(0, len(bytes_), row))
        t["shape"][0] *= 2
    if name.endswith(".g_idx"):
        bytes_ = struct.pack(f"<{t['shape'][0]}i", *(i // 64 for i in range(t["shape"][0])))
    t["data_offsets"] = [len(out), len(out) + len(bytes_)]
    out += bytes_
os.makedirs(sys.argv[2])
text = json.dumps(head).encode()
text += b" " * (-len(text) % 8)
open(sys.argv[2] + "/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + out)
config = json.load(open(sys.argv[1] + "/config.json"))
config["quantization_config"]["group_size"] = 64
json.dump(config, open(sys.argv[2] + "/config.json", "w"))
