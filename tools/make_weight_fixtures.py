#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fixtures/weights.bin: blocks of every GGUF block type with their f32 values, by the package `gguf`.

The file is committed; run this to add a type. `gguf` is installed into .cache/gguf-<version>, a virtual environment.

A record: the type's name in 8 bytes, u32 blocks, u32 weights and u32 bytes of a block, the blocks, the values as f32;
all little-endian. The blocks: random codes under usual scales; then all zeros, all ones; every f16 scale in turn at its
largest, its smallest subnormal, negative, minus zero, infinite and NaN.
"""
import os
import pathlib
import struct
import subprocess
import sys
import venv

VERSION = "0.19.0"
ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = ROOT / "tests" / "fixtures" / "weights.bin"
HOME = ROOT / ".cache" / f"gguf-{VERSION}"

# Type: where its f16 scales stand in a block.
SCALES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2],
    "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "MXFP4": [],
}
EDGES = [0x7BFF, 0x0001, 0xB266, 0x8000, 0x7C00, 0x7E00]  # f16
RANDOM_BLOCKS = 4


def enter_environment():
    """Runs this script again inside the environment that has `gguf`."""
    python = HOME / "bin" / "python"
    if pathlib.Path(sys.prefix) == HOME:
        return
    if not python.exists():
        venv.create(HOME, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"gguf=={VERSION}"], check=True)
    os.execv(python, [str(python), __file__])


def blocks_of(name, size, random):
    import numpy as np

    def block():
        out = random.integers(0, 256, size, dtype=np.uint8)
        for at in SCALES[name]:
            out[at:at + 2] = np.frombuffer(np.float16(random.normal() * 0.01).tobytes(), dtype=np.uint8)
        if name == "MXFP4":
            out[0] = random.integers(110, 140)
        return out

    blocks = [block() for _ in range(RANDOM_BLOCKS)]
    blocks += [np.zeros(size, dtype=np.uint8), np.full(size, 0xFF, dtype=np.uint8)]
    for at in SCALES[name]:
        for bits in EDGES:
            edge = block()
            edge[at:at + 2] = np.frombuffer(struct.pack("<H", bits), dtype=np.uint8)
            blocks.append(edge)
    if name == "MXFP4":
        for exponent in (0, 1, 2, 3, 127, 253, 254, 255):
            edge = block()
            edge[0] = exponent
            edge[1:] = np.arange(0, 256, 17, dtype=np.uint8)  # every code
            blocks.append(edge)
    return np.stack(blocks)


def main():
    enter_environment()
    import numpy as np
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
    from gguf.quants import dequantize

    out = b""
    random = np.random.default_rng(4)
    for name in SCALES:
        kind = GGMLQuantizationType[name]
        weights, size = GGML_QUANT_SIZES[kind]
        blocks = blocks_of(name, size, random)
        with np.errstate(all="ignore"):
            values = dequantize(blocks, kind)
        assert values.shape == (len(blocks), weights) and values.dtype == np.float32
        out += name.ljust(8, "\0").encode() + struct.pack("<III", len(blocks), weights, size)
        out += blocks.tobytes() + values.astype("<f4").tobytes()
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_bytes(out)
    print(f"{TARGET.relative_to(ROOT)}: {len(SCALES)} types, {len(out)} bytes")


if __name__ == "__main__":
    main()
