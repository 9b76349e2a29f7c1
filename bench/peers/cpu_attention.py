#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times attention on the CPU beside PyTorch and ggml: the same shapes, the same number of threads, in turn.

    bench/peers/cpu_attention.py build-release/bin/fovea --threads 1 --only 'decode .*bf16'

PyTorch is scaled_dot_product_attention, installed by setup_torch.py; ggml is ggml_flash_attn_ext of the build that
setup_llama_cpp.sh makes, left out where there is none. Both read [batch, heads, tokens, d] without pages. Fovea reads the
same layout ("contiguous") and pages of 16 tokens, [page, token, head, d] ("paged"). ggml has a Q of f32 always, and q8_0
where Fovea has fp8; PyTorch has neither 8-bit type. Times are of one call, in milliseconds: the least of all samples, and
behind it the median. Operands rotate over --memory MiB, as `fovea bench` does it.
"""
import argparse
import ctypes
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
HEADS, KV_HEADS = 32, 8
F32, F16, BF16, Q8_0 = 0, 1, 30, 8  # of ggml
GGML_TYPES = {"f32": F32, "bf16": BF16, "fp8": Q8_0}


def cases():
    """(name, batch, new tokens, keys, d, type of the cache)"""
    for kv in ("f32", "bf16"):
        for d in (128, 64):
            for n in (512, 1024, 2048, 4096):
                yield f"prefill {n} d{d} {kv}", 1, n, n, d, kv
    for kv in ("f32", "bf16", "fp8"):
        for batch in (1, 8, 32):
            for keys in (1024, 4096, 16384):
                if batch * keys <= 32 * 4096:
                    yield f"decode {batch} x {keys} {kv}", batch, 1, keys, 128, kv


def samples_of(call, count, sets):
    """Seconds of one call, `count` times: of as many calls as take 0.2 ms or more."""
    begin = time.perf_counter()
    for i in range(min(sets, 4)):
        if time.perf_counter() - begin < 0.5:
            call(i)
    start = time.perf_counter()
    call(0)
    calls = max(1, round(2e-4 / max(time.perf_counter() - start, 1e-7)))
    taken, at = [], 0
    for _ in range(count):
        start = time.perf_counter()
        for _ in range(calls):
            call(at % sets)
            at += 1
        taken.append((time.perf_counter() - start) / calls)
    return taken


def number_of_sets(batch, q, keys, d, kv, memory):
    size = {"f32": 4, "bf16": 2, "fp8": 1}[kv]
    touched = 2 * batch * keys * KV_HEADS * d * size + 2 * batch * q * HEADS * d * size
    return max(2, min(64, memory * 2**20 // touched))


class Fovea:
    def __init__(self, program, layout, threads, memory):
        self.command = [program, "bench", "attention", "--json", "--threads", str(threads), "--memory", str(memory)]
        self.command += [*layout, "--heads", str(HEADS), "--kv-heads", str(KV_HEADS)]
        self.facts = json.loads(self.run("--samples", "1", "--kv-len", "64", "--batch", "1"))

    def run(self, *options):
        return subprocess.run([*self.command, *options], check=True, capture_output=True, text=True).stdout

    def prepare(self, batch, q, keys, d, kv):
        kind = "f32" if kv == "f32" else "bf16"
        options = {"batch": batch, "q-len": q, "kv-len": keys, "head-dim": d, "kv": kv, "q-type": kind, "out-type": kind}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]

        def take(count):
            seconds = json.loads(self.run(*words, "--samples", str(count)))["seconds"]
            return seconds["min"], seconds["median"]

        return take


class Torch:
    def __init__(self, threads, memory):
        import torch

        self.torch, self.memory = torch, memory
        torch.set_num_threads(threads)
        assert torch.get_num_threads() == threads

    def prepare(self, batch, q, keys, d, kv):
        torch = self.torch
        if kv == "fp8":
            return None
        kind = {"f32": torch.float32, "bf16": torch.bfloat16}[kv]
        sets = number_of_sets(batch, q, keys, d, kv, self.memory)
        shapes = ((batch, HEADS, q, d), (batch, KV_HEADS, keys, d), (batch, KV_HEADS, keys, d))
        operands = [[torch.randn(shape).to(kind) for shape in shapes] for _ in range(sets)]

        def call(i):
            with torch.no_grad():
                torch.nn.functional.scaled_dot_product_attention(*operands[i], is_causal=q > 1, enable_gqa=True)

        def take(count):
            taken = samples_of(call, count, sets)
            return min(taken), statistics.median(taken)

        return take


class InitParams(ctypes.Structure):
    _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


class Ggml:
    def __init__(self, build, threads, memory):
        import torch

        self.torch, self.memory = torch, memory
        self.base = ctypes.CDLL(str(build / "bin" / "libggml-base.so"), mode=ctypes.RTLD_GLOBAL)
        self.cpu = ctypes.CDLL(str(build / "bin" / "libggml-cpu.so"), mode=ctypes.RTLD_GLOBAL)
        pointer, i64, f32 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
        for library, name, result, arguments in (
            (self.base, "ggml_init", pointer, [InitParams]),
            (self.base, "ggml_free", None, [pointer]),
            (self.base, "ggml_new_tensor_4d", pointer, [pointer, ctypes.c_int, i64, i64, i64, i64]),
            (self.base, "ggml_get_data", pointer, [pointer]),
            (self.base, "ggml_nbytes", ctypes.c_size_t, [pointer]),
            (self.base, "ggml_nelements", i64, [pointer]),
            (self.base, "ggml_quantize_chunk", ctypes.c_size_t, [ctypes.c_int, pointer, pointer, i64, i64, i64, pointer]),
            (self.base, "ggml_flash_attn_ext", pointer, [pointer] * 5 + [f32] * 3),
            (self.base, "ggml_new_graph", pointer, [pointer]),
            (self.base, "ggml_build_forward_expand", None, [pointer, pointer]),
            (self.base, "ggml_threadpool_params_init", None, [pointer, ctypes.c_int]),
            (self.base, "ggml_backend_graph_compute", ctypes.c_int, [pointer, pointer]),
            (self.cpu, "ggml_threadpool_new", pointer, [pointer]),
            (self.cpu, "ggml_backend_cpu_init", pointer, []),
            (self.cpu, "ggml_backend_cpu_set_n_threads", None, [pointer, ctypes.c_int]),
            (self.cpu, "ggml_backend_cpu_set_threadpool", None, [pointer, pointer]),
        ):
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name.removeprefix("ggml_"), function)
        # Threads that stay between calls, as llama.cpp has them.
        params = ctypes.create_string_buffer(4096)
        self.threadpool_params_init(params, threads)
        self.backend = self.backend_cpu_init()
        self.backend_cpu_set_n_threads(self.backend, threads)
        self.backend_cpu_set_threadpool(self.backend, self.threadpool_new(params))
        self.context = None

    def fill(self, kind, tensor):
        """Random numbers of the tensor's type."""
        values = self.torch.randn(self.nelements(tensor))
        if kind == Q8_0:
            self.quantize_chunk(Q8_0, values.data_ptr(), self.get_data(tensor), 0, values.numel() // 32, 32, None)
            return
        values = values.to({F32: self.torch.float32, BF16: self.torch.bfloat16}[kind])
        ctypes.memmove(self.get_data(tensor), values.data_ptr(), self.nbytes(tensor))

    def causal_mask(self, context, n):
        mask = self.new_tensor_4d(context, F16, n, n, 1, 1)
        hidden = self.torch.full((n, n), -float("inf")).triu(1).half()
        ctypes.memmove(self.get_data(mask), hidden.data_ptr(), self.nbytes(mask))
        return mask

    def prepare(self, batch, q, keys, d, kv):
        if self.context:
            self.free(self.context)
        kind, sets = GGML_TYPES[kv], number_of_sets(batch, q, keys, d, kv, self.memory)
        bytes_of_a_set = 8 * batch * (keys * KV_HEADS + 2 * q * HEADS) * d + 2 * q * keys + 2**20
        self.context = context = self.init(InitParams(sets * bytes_of_a_set, None, False))
        mask = self.causal_mask(context, q) if q > 1 else None
        graphs = []
        for _ in range(sets):
            operands = []
            for type_, tokens, heads in ((F32, q, HEADS), (kind, keys, KV_HEADS), (kind, keys, KV_HEADS)):
                operands.append(self.new_tensor_4d(context, type_, d, tokens, heads, batch))
                self.fill(type_, operands[-1])
            graph = self.new_graph(context)
            self.build_forward_expand(graph, self.flash_attn_ext(context, *operands, mask, d**-0.5, 0.0, 0.0))
            graphs.append(graph)

        def call(i):
            if self.backend_graph_compute(self.backend, graphs[i]) != 0:
                sys.exit("fovea: ggml could not compute its graph")

        def take(count):
            taken = samples_of(call, count, sets)
            return min(taken), statistics.median(taken)

        return take


def cpu_name():
    match = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return match.group(1) if match else "unknown"


def print_facts(options, fovea, torch):
    version = subprocess.run(["git", "-C", HERE, "describe", "--always", "--dirty"], capture_output=True, text=True).stdout
    print(f"CPU {cpu_name()}, {options.threads} of {os.cpu_count()} cores; {options.repeats} x {options.samples} samples")
    print(f"Fovea {fovea.facts['version']} at {version.strip()}, {fovea.facts['isa']}; roofs of its run: "
          f"read {fovea.facts['roof']['read_gb_per_s']:.0f} GB/s, "
          f"multiply-add {fovea.facts['roof']['fma_gflop_per_s']:.0f} GFLOP/s")
    built = re.findall(r"- (Intel.*?) (?:for|\(Git)", torch.torch.__config__.show())
    print(f"PyTorch {torch.torch.__version__}, {torch.torch.backends.cpu.get_cpu_capability()}; " + "; ".join(built))
    commands = options.ggml / "compile_commands.json"
    if commands.exists():
        command = next(c["command"] for c in json.loads(commands.read_text()) if c["file"].endswith("ggml-cpu/ops.cpp"))
        flags = re.findall(r"(?<= )-(?:O\d|march=\S+|m\S+|f\S+|DNDEBUG|DGGML_\S+)", command)
        print("ggml of llama-cpp-python 0.3.36: " + " ".join(flags))
    else:
        print(f"ggml: left out, no build in {options.ggml}")
    print()


def measure(rows, case, options):
    taken = {}
    takes = {name: row.prepare(*case[1:]) for name, row in rows.items()}
    for _ in range(options.repeats):
        for name, take in takes.items():
            if take:
                taken.setdefault(name, []).append(take(options.samples))
    return {name: (min(t[0] for t in times), statistics.median(t[1] for t in times)) for name, times in taken.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fovea", help="the `fovea` program")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3, help="rounds through all programs")
    parser.add_argument("--samples", type=int, default=7, help="of each program in each round")
    parser.add_argument("--memory", type=int, default=256, help="MiB that operands rotate over")
    parser.add_argument("--only", default="", help="cases whose name matches this expression")
    parser.add_argument("--ggml", type=pathlib.Path, default=HERE.parents[1] / ".cache/llama_cpp-0.3.36/build")
    options = parser.parse_args()
    try:
        import torch  # noqa: F401
    except ImportError:
        python = subprocess.run([HERE / "setup_torch.py"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        if sys.executable == python:
            raise
        os.execv(python, [python, "-W", "ignore", *sys.argv])

    contiguous, paged = ("--page-size", "0", "--layout", "hnd"), ("--page-size", "16", "--layout", "nhd")
    rows = {"contiguous": Fovea(options.fovea, contiguous, options.threads, options.memory),
            "paged": Fovea(options.fovea, paged, options.threads, options.memory),
            "PyTorch": Torch(options.threads, options.memory)}
    print_facts(options, rows["contiguous"], rows["PyTorch"])
    if options.ggml.exists():
        rows["ggml"] = Ggml(options.ggml, options.threads, options.memory)
    peers = [name for name in rows if name in ("PyTorch", "ggml")]
    print("| case | Fovea, contiguous | Fovea, paged | " + " | ".join(peers) + " | speed over the better peer: contiguous | paged |")
    print("|---|" + "---|" * (len(rows) + 2))
    for case in cases():
        if not re.search(options.only, case[0]):
            continue
        times = measure(rows, case, options)
        best = min((times[p][0] for p in peers if p in times), default=None)
        cells = [f"{times[r][0] * 1e3:.3f} ({times[r][1] * 1e3:.3f})" if r in times else "" for r in rows]
        ratios = [f"{best / times[r][0]:.2f}" if best else "" for r in ("contiguous", "paged")]
        print(f"| {case[0]} | " + " | ".join(cells + ratios) + " |", flush=True)


if __name__ == "__main__":
    main()
