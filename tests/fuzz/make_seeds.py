#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the inputs that fuzzing starts from: tests/fuzz/make_seeds.py FOLDER [--model FILE]

FOLDER/<target>/ receives a file for each. Small GGUF files are cut from a real one, where there is one: its metadata with
a short vocabulary, its table of tensors, its weights cut to a few rows and columns. Others are written from nothing.
"""
import argparse
import pathlib
import struct

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODEL = ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
BLOCKS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 12: (256, 144),
          14: (256, 210), 30: (1, 2)}  # tensor type: elements and bytes of a block
TOKENS = 280  # of the cut vocabulary: all bytes among them


def text(value):
    return struct.pack("<Q", len(value)) + value


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, code):
        value, = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def string(self):
        size = self.number("Q")
        self.at += size
        return bytes(self.data[self.at - size:self.at])

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind != ARRAY:
            return self.number(SCALARS[kind])
        element, count = self.number("I"), self.number("Q")
        return element, [self.value(element) for _ in range(count)]


def encoded(kind, value):
    if kind == STRING:
        return text(value)
    if kind != ARRAY:
        return struct.pack("<" + SCALARS[kind], value)
    element, values = value
    return struct.pack("<IQ", element, len(values)) + b"".join(encoded(element, v) for v in values)


class File:
    """A GGUF file: pairs {key: (type, value)} and tensors [(name, dims, type, data)]."""

    def __init__(self, pairs=None, tensors=None):
        self.pairs, self.tensors = pairs or {}, tensors or []

    @staticmethod
    def read(data):
        reader = Reader(data)
        if reader.number("I") != 0x46554747 or reader.number("I") != 3:
            raise ValueError("no GGUF file of version 3")
        tensors, pairs = reader.number("Q"), reader.number("Q")
        file = File()
        for _ in range(pairs):
            key = reader.string()
            kind = reader.number("I")
            file.pairs[key] = kind, reader.value(kind)
        rows = []
        for _ in range(tensors):
            name = reader.string()
            dims = [reader.number("Q") for _ in range(reader.number("I"))]
            rows.append((name, dims, reader.number("I"), reader.number("Q")))
        start = (reader.at + 31) // 32 * 32
        file.tensors = [(name, dims, kind, data[start + offset:]) for name, dims, kind, offset in rows]
        return file

    def bytes(self, with_data=True):
        out = b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.pairs))
        for key, (kind, value) in self.pairs.items():
            out += text(key) + struct.pack("<I", kind) + encoded(kind, value)
        blob = b""
        for name, dims, kind, data in self.tensors:
            blob += b"\0" * (-len(blob) % 32)
            out += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, len(blob))
            blob += data
        return out + (b"\0" * (-len(out) % 32) + blob if with_data else b"")

    def cuts(self):
        """The bytes before each tensor."""
        whole, at = self.bytes(), len(self.bytes(with_data=False))
        for _, _, _, data in self.tensors:
            at += -at % 32
            yield whole[:at]
            at += len(data)


def rows_of(dims, kind, data, columns, rows):
    """The first columns of the first rows: whole blocks."""
    block, size = BLOCKS[kind]
    stride = dims[0] // block * size
    columns = max(columns // block * block, block) if block > 1 else columns
    keep = columns // block * size
    return [columns] + ([rows] if len(dims) > 1 else []), b"".join(bytes(data[i * stride:i * stride + keep]) for i in range(rows))


def cut(file, hidden=32):
    """The same model with one layer, one head and a few tokens."""
    ints = {"block_count": 1, "embedding_length": hidden, "feed_forward_length": hidden, "attention.head_count": 1,
            "attention.head_count_kv": 1, "rope.dimension_count": hidden, "context_length": 64}
    pairs = dict(file.pairs)
    prefix = pairs[b"general.architecture"][1].decode()
    for name, value in ints.items():
        key = f"{prefix}.{name}".encode()
        if key in pairs:
            pairs[key] = pairs[key][0], value
    kind, (element, tokens) = pairs[b"tokenizer.ggml.tokens"]
    single = [t for t in tokens if len(t.decode()) == 1]
    special = [t for t in tokens[:17] if t.startswith(b"<|")]
    merges = []
    known = set(single)
    for merge in pairs[b"tokenizer.ggml.merges"][1][1]:
        left, right = merge.split(b" ")
        if left in known and right in known and len(single) + len(special) + len(merges) < TOKENS:
            merges.append(merge)
            known.add(left + right)
    vocabulary = special + single + [m.replace(b" ", b"") for m in merges]
    pairs[b"tokenizer.ggml.tokens"] = kind, (element, vocabulary)
    pairs[b"tokenizer.ggml.merges"] = kind, (STRING, merges)
    pairs[b"tokenizer.ggml.token_type"] = kind, (5, [3 if t in special else 1 for t in vocabulary])
    for key, (kind, value) in pairs.items():
        if key.endswith(b"_token_id"):
            pairs[key] = kind, min(value, len(special) - 1)
    tensors = []
    for name, dims, kind, data in file.tensors:
        if not name.startswith(b"blk.") or name.startswith(b"blk.0."):
            many = len(vocabulary) if name in (b"token_embd.weight", b"output.weight") else hidden
            dims, data = rows_of(dims, kind, data, hidden, many if len(dims) > 1 else 1)
            tensors.append((name, dims, kind, data))
    return File(pairs, tensors)


def from_model(path):
    file = File.read(memoryview(path.read_bytes()))
    small = cut(file)
    short = dict(small.pairs)
    for key in (b"tokenizer.ggml.tokens", b"tokenizer.ggml.merges", b"tokenizer.ggml.token_type"):
        kind, (element, values) = short[key]
        short[key] = kind, (element, values[:4])
    template = file.pairs.get(b"tokenizer.chat_template")
    return {
        "gguf": {"model": small.bytes(),
                 "table": File(short, file.tensors[:12]).bytes(with_data=False),
                 "metadata": File(short).bytes(),
                 "half": small.bytes()[:len(small.bytes()) // 2]} |
                {f"before_tensor_{i}": cut for i, cut in enumerate(small.cuts())},
        "chat_template": {"model": bytes([1, 2, 1, 0, 2]) + b"hi" + template[1]} if template else {},
    }


def synthetic():
    every = {b"k%d" % kind: (kind, 1) for kind in SCALARS}
    every[b"general.architecture"] = STRING, b"llama"
    every[b"names"] = ARRAY, (STRING, [b"x", b"", b"yz"])
    every[b"ints"] = ARRAY, (5, [3, -1, 2])
    every[b"nested"] = ARRAY, (ARRAY, [(0, [1, 2]), (STRING, [b"a"])])
    tensors = [(b"t%d" % kind, [2 * block, 2], kind, b"\1" * (4 * size)) for kind, (block, size) in BLOCKS.items()]
    return {"gguf": {"types": File(every, tensors).bytes(), "empty": File().bytes(),
                     "dims": File({}, [(b"d", [2, 3, 4, 5], 0, b"\0" * 480)]).bytes()}}


def chat_templates():
    marks = {
        "chatml": b"<|im_start|>system\nYou help.<|im_end|>{{ '<|im_start|>' + message['role'] }}",
        "llama3": b"{{ bos_token }}<|start_header_id|>x<|eot_id|>Cutting Knowledge Date: December 2023 date_string = \"26 Jul 2024\"",
        "gemma": b"{{ bos_token }}<start_of_turn>model<end_of_turn>System role not supported | trim",
        "phi3": b"<|user|><|assistant|><|end|>", "zephyr": b"<|system|><|user|><|assistant|>{{ eos_token }}",
        "llama2": b"{{ bos_token }}[INST] <<SYS>> [/INST]", "mistral": b"{{ bos_token }}[INST]x[/INST].strip()",
    }
    head = bytes([1, 1, 3, 2, 3]) + b"sys" + bytes([0, 4]) + b"ask " + bytes([1, 2]) + b"ok"
    return {"chat_template": {name: head + mark for name, mark in marks.items()}}


def model_configs():
    folder = ROOT / "tests" / "apps" / "configs"
    inputs = {path.stem: path.read_bytes() for path in sorted(folder.glob("*.json"))}
    inputs["deep"] = b'{"n_head": ' + b"[" * 1000 + b"]" * 1000 + b"}"
    return {"model_config": inputs}


def tokenizers():
    texts = {"words": "Hello, it's 12345 words\n\n of   text", "unicode": "\u00e9\u4f60\u597d \U0001f642 na\u00efve\u200d\u0301", "code": "if(x>=10){return x*2;}"}
    out = {}
    for number, (name, value) in enumerate(texts.items()):
        for family in range(12):
            choices = bytes([family, 1, 0, 4, 0, 104, 101, 0, 108, 108, 0, 0, 1, 5, 3]) + b"<x>" + bytes([1, 255, 0, 1, number])
            out[f"{name}{family}"] = choices + value.encode()
    return {"tokenizer": out}


def elf():
    """A cubin of one entry with attributes, as src/backend/cuda/cubin.cpp looks for them."""
    names = b"\0.shstrtab\0.strtab\0.symtab\0.nv.info\0.nv.info.kernel\0.nv.shared.kernel\0"
    symbols = bytes(24) + struct.pack("<IBBHQQ", 1, 2, 0, 0, 0, 0)
    info = struct.pack("<BBHII", 4, 0x2F, 8, 1, 32) + struct.pack("<BBHII", 4, 0x11, 8, 1, 16)
    launch = struct.pack("<BBHIII", 4, 0x05, 12, 128, 1, 1)
    parts = [(b"", b""), (b".shstrtab", names), (b".strtab", b"\0kernel\0"), (b".symtab", symbols), (b".nv.info", info),
             (b".nv.info.kernel", launch)]
    at, table, blob = 64, b"", b""
    for name, data in parts:
        table += struct.pack("<IIQQQQIIQQ", names.find(name + b"\0") if name else 0, 1, 0, 0, at + len(blob), len(data), 0, 0, 1, 0)
        blob += data
    table += struct.pack("<IIQQQQIIQQ", names.find(b".nv.shared.kernel"), 8, 0, 0, 0, 2048, 0, 0, 1, 0)
    header = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, at + len(blob), 0, 64, 0, 0, 64, 7, 1)
    return header + blob + table


def bundles():
    """Checksums are zero: the target's mutator puts them right."""
    code = elf()
    index = struct.pack("<QQQQQQ", 1, 2, 96 + 48 + 7 + 9, len(code), 0, 0)
    header = b"FOVEABND" + struct.pack("<II", 2, 48) + bytes(16) + struct.pack("<II", 12, 9) + b"90a".ljust(16, b"\0")
    bundle = header + struct.pack("<QQQ", 1, 160 + len(code), 7) + bytes(16) + index + b"kernel\n" + bytes(9) + code
    entry = b"FOVEAKRN" + struct.pack("<IIII", 1, 12, 9, 0) + bytes(16) + struct.pack("<Q", len(code)) + bytes(16) + code
    return {"bundle": {"elf": code, "bundle": bundle, "entry": entry}}


def calls():
    """A run of different choices for each operation."""
    return {"c_abi": {f"op{op}_{step}": bytes([op]) + bytes((7 + step * i) % 256 for i in range(160))
                      for op in range(11) for step in (0, 1, 37)}}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path, default=MODEL)
    args = parser.parse_args()
    groups = [synthetic(), chat_templates(), model_configs(), tokenizers(), bundles(), calls()]
    if args.model.exists():
        groups.append(from_model(args.model))
    for group in groups:
        for target, inputs in group.items():
            (args.folder / target).mkdir(parents=True, exist_ok=True)
            for name, data in inputs.items():
                (args.folder / target / f"seed_{name}").write_bytes(data)


if __name__ == "__main__":
    main()
