"""Reading and writing the files of a checkpoint: safetensors, bf16, MXFP4, the vocabulary."""
import base64
import json
import os
import struct

import numpy as np

E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6])
NUMPY_TYPES = {"BF16": np.uint16, "F32": np.float32, "U8": np.uint8}

# Reserved names and their distance from the first reserved id.
RESERVED = {0: "[BOS]", 1: "[EOS]", 2: "<|end_of_msg|>", 3: "<|open|>", 4: "<|close|>", 5: "<|sep|>", 6: "[start_header_id]",
            7: "[end_header_id]", 9: "[EOT]", 18: "<|media_begin|>", 19: "<|media_content|>", 20: "<|media_end|>", 21: "<|media_pad|>",
            65: "<osagent_mode>", 254: "[UNK]", 255: "[PAD]"}


def to_bf16(x):
    """Rounded to nearest, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def write_safetensors(path, tensors):
    """`tensors`: name to (type, array), written in that order without gaps."""
    header, offset = {}, 0
    for name, (dtype, array) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, array in tensors.values():
            f.write(np.ascontiguousarray(array).tobytes())


def write_shards(directory, shards):
    """Shards in the released naming, and their index."""
    weight_map, total = {}, 0
    for number, tensors in enumerate(shards, 1):
        name = f"model-{number:05d}-of-{len(shards):06d}.safetensors"
        write_safetensors(os.path.join(directory, name), tensors)
        for tensor, (_, array) in tensors.items():
            weight_map[tensor] = name
            total += array.nbytes
    with open(os.path.join(directory, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
        json.dump({"metadata": {"total_size": total}, "weight_map": weight_map}, f, indent=0)


def write_vocabulary(directory, ranks):
    """tiktoken.model and tokenizer_config.json: `ranks` are byte strings, 256 reserved ids follow them."""
    with open(os.path.join(directory, "tiktoken.model"), "w", encoding="ascii") as f:
        for rank, token in enumerate(ranks):
            f.write(f"{base64.b64encode(token).decode()} {rank}\n")
    # <|open|>, <|close|> and <|sep|> are not "special" in the released file, reserved though they are.
    added = {str(len(ranks) + k): {"content": name, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
                                   "special": k not in (3, 4, 5)} for k, name in RESERVED.items()}
    config = {"added_tokens_decoder": added, "bos_token": "[BOS]", "eos_token": "[EOS]", "unk_token": "[UNK]", "pad_token": "[PAD]",
              "model_max_length": 1000000000000000019884624838656, "tokenizer_class": "TikTokenTokenizer",
              "clean_up_tokenization_spaces": False}
    with open(os.path.join(directory, "tokenizer_config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f, indent=1)


class Tensors:
    """The tensors of a directory, by name."""

    def __init__(self, directory):
        self.directory, self.places = directory, {}
        with open(os.path.join(directory, "model.safetensors.index.json"), encoding="utf-8") as f:
            shards = sorted(set(json.load(f)["weight_map"].values()))
        for shard in shards:
            with open(os.path.join(directory, shard), "rb") as f:
                size = struct.unpack("<Q", f.read(8))[0]
                for name, entry in json.loads(f.read(size)).items():
                    if name != "__metadata__":
                        self.places[name] = (shard, 8 + size, entry)

    def stored(self, name):
        shard, base, entry = self.places[name]
        begin, end = entry["data_offsets"]
        with open(os.path.join(self.directory, shard), "rb") as f:
            f.seek(base + begin)
            return np.frombuffer(f.read(end - begin), NUMPY_TYPES[entry["dtype"]]).reshape(entry["shape"])

    def floats(self, name):
        array = self.stored(name)
        return (from_bf16(array) if array.dtype == np.uint16 else array).astype(np.float64)

    def mxfp4(self, name):
        """Even columns in the low nibble; a scale is a power of two for 32 columns."""
        packed, scale = self.stored(name + ".weight_packed"), self.stored(name + ".weight_scale")
        codes = np.stack([packed & 15, packed >> 4], -1).reshape(len(packed), -1, 32)
        values = E2M1[codes] * np.exp2(scale.astype(np.float64) - 127)[..., None]
        return values.reshape(len(packed), -1)
