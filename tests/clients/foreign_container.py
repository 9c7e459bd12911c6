#!/usr/bin/python3
"""foreign_container.py K3: a container as another tool writes it (trunk before experts, no metadata, rounding in numpy) gives the bits of the original."""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

import numpy as np

K3 = os.path.abspath(sys.argv[1])
os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
ROUNDED = re.compile(r"lm_head|self_attn\.(q|k|v|g|o|q_a|q_b|kv_b)_proj\.|kv_a_proj_with_mqa|routed_expert_(down|up)|shared_experts|\.mlp\.(gate|up|down)_proj")


def tensors(path):
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        yield name, entry["dtype"], entry["shape"], data[8 + size + begin:8 + size + end]


def rounded(shape, data, bits):
    """(shape, codes, shape of scales, scales), by the definition, in float32."""
    w = (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(shape)
    one = np.float32(1)
    if bits == 4 and shape[1] % 64 == 0:
        groups = w.reshape(shape[0], -1, 64)
        scale = np.maximum(np.abs(groups).max(axis=2) / np.float32(7), np.float32(1e-20))
        code = np.clip(np.rint(groups * (one / scale)[:, :, None]), -8, 7).astype(np.int32).reshape(shape) + 8
        packed = (code[:, 0::2] | code[:, 1::2] << 4).astype(np.uint8)
        return list(packed.shape), packed.tobytes(), list(scale.shape), scale.tobytes()
    scale = np.maximum(np.abs(w).max(axis=1) / np.float32(127), np.float32(1e-20))
    code = np.clip(np.rint(w * (one / scale)[:, None]), -127, 127).astype(np.int8)
    return shape, code.tobytes(), [shape[0]], scale.tobytes()


def write(path, entries):
    header, offset = {}, 0
    for name, dtype, shape, data in entries:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, _, data in entries))


def convert(source, target, bits):
    os.mkdir(target)
    index = {}
    for file in sorted(os.listdir(source)):
        if not file.endswith(".safetensors"):
            if "index" not in file:
                shutil.copy(os.path.join(source, file), target)
            continue
        trunk, experts = [], []
        for name, dtype, shape, data in tensors(os.path.join(source, file)):
            if ".experts." in name:
                experts.append((name, dtype, shape, data))
            elif dtype == "BF16" and len(shape) == 2 and ROUNDED.search(name):
                code_shape, codes, scale_shape, scales = rounded(shape, data, bits)
                trunk += [(name, "U8", code_shape, codes), (name + ".qs", "F32", scale_shape, scales)]
            else:
                trunk.append((name, dtype, shape, data))
        write(os.path.join(target, file), trunk + experts)
        index.update((entry[0], file) for entry in trunk + experts)
    with open(os.path.join(target, "model.safetensors.index.json"), "w", encoding="utf-8") as out:
        json.dump({"metadata": {}, "weight_map": index}, out)


def logits(model, out, *flags):
    subprocess.run([K3, "logits", model, "--ids", "1,2,3,5,8,13,21,34,55,89", "--out", out, *flags], check=True)
    with open(out, "rb") as file:
        return file.read()


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as work:
        for source in ("tools/mini/model", "tests/data/tiny/model"):
            for bits in (8, 4):
                target = os.path.join(work, f"{source.split('/')[1]}-{bits}")
                convert(source, target, bits)
                flags = [flag for name in ("--bits", "--mla-bits", "--head-bits") for flag in (name, str(bits))]
                same = logits(target, target + ".a") == logits(source, target + ".b", *flags)
                print("ok     " if same else "FAILED ", source, bits, "bits")
                failed += not same
    return 1 if failed else 0


sys.exit(main())
