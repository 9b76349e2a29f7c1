#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Errors that other quantisers leave: RMS of the error over RMS of the weights, for docs/quantize.md and the bounds of the tests.

  bench/peers/quantize_errors.py [--ggml LIBRARY] [--model FILE] [--blocks 0,14,29]

needs the PyPI packages gguf and numpy. LIBRARY is libggml-base.so of setup_llama_cpp.sh: with it llama.cpp's own quantisers
are measured too, those of super-blocks included. FILE is a GGUF file whose linear layers are quantised anew, in the named
blocks.
"""
import argparse
import ctypes

import gguf
import numpy
from gguf import GGMLQuantizationType as Type
from gguf import quants

TYPES = [Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.Q2_K, Type.Q3_K, Type.Q4_K, Type.Q5_K, Type.Q6_K,
         Type.IQ4_NL, Type.MXFP4]


def llama_cpp(path):
    """A function that quantises rows as llama.cpp does, without an importance matrix."""
    chunk = ctypes.CDLL(path).ggml_quantize_chunk
    chunk.restype = ctypes.c_size_t
    chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p]

    def quantize(rows, kind):
        n, k = rows.shape
        block, size = gguf.GGML_QUANT_SIZES[kind]
        out = numpy.zeros((n, k // block * size), numpy.uint8)
        if chunk(int(kind), rows.ctypes.data, out.ctypes.data, 0, n, k, None) != out.size:
            raise RuntimeError(f"{path}: {kind.name} wrote another number of bytes")
        return out

    return quantize


def relative_error(quantize, matrices, kind):
    block = gguf.GGML_QUANT_SIZES[kind][0]
    error = total = 0.0
    for rows in matrices:
        if rows.shape[1] % block != 0:
            continue
        back = quants.dequantize(quantize(rows, kind), kind)
        error += numpy.square(back - rows, dtype=numpy.float64).sum()
        total += numpy.square(rows, dtype=numpy.float64).sum()
    return f"{numpy.sqrt(error / total):.5f}" if total > 0 else "-"


def linear_layers(path, blocks):
    names = [f"blk.{block}." for block in blocks]
    for tensor in gguf.GGUFReader(path).tensors:
        if len(tensor.shape) == 2 and tensor.name.startswith(tuple(names)):
            rows = quants.dequantize(tensor.data, tensor.tensor_type)
            yield numpy.ascontiguousarray(rows, numpy.float32)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ggml")
    parser.add_argument("--model")
    parser.add_argument("--blocks", default="0,14,29", type=lambda text: [int(block) for block in text.split(",")])
    options = parser.parse_args()
    random = numpy.random.default_rng(1)
    data = {"normal": [0.02 * random.standard_normal((512, 4096), numpy.float32)],
            "laplace": [(0.02 * random.laplace(size=(512, 4096))).astype(numpy.float32)]}
    if options.model:
        data["model"] = list(linear_layers(options.model, options.blocks))
    quantisers = {"gguf": quants.quantize}
    if options.ggml:
        quantisers["llama.cpp"] = llama_cpp(options.ggml)
    print("\t".join(["quantiser", "type"] + list(data)))
    for name, quantize in quantisers.items():
        for kind in TYPES:
            try:
                row = [relative_error(quantize, matrices, kind) for matrices in data.values()]
            except NotImplementedError:
                continue
            print("\t".join([name, kind.name.lower()] + row), flush=True)


if __name__ == "__main__":
    main()
