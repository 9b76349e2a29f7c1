# SPDX-License-Identifier: Apache-2.0
"""FlashInfer. Its kernels are compiled by nvcc, which takes minutes: `python adapters/flashinfer_peer.py` does it beforehand for
the cases of cases.py. Adapters load what was compiled and skip the rest."""
import concurrent.futures
import functools
import importlib.util
import math
import os
import sys
import time

from cases import Skip

DIMS_FA3, DIMS_FA2, DECODE = (128, 64, 256), (128,), (128, 4)


@functools.cache
def workspace():
    import torch

    return torch.zeros(512 * 2**20, dtype=torch.uint8, device="cuda")


class NotCompiled(Exception):
    pass


@functools.cache
def compile_nothing():
    from flashinfer import jit

    def build(spec, *_, **__):
        if not spec.jit_library_path.exists():
            raise NotCompiled

    jit.JitSpecNvcc.build = build


def modules():
    """Name -> what compiles and loads it, as the wrappers do; in two lots, the second when the first is done."""
    import torch
    from flashinfer import decode, prefill
    from flashinfer.xqa import get_xqa_module

    kind, (d, group) = torch.bfloat16, DECODE
    first = {
        "XQA": lambda: get_xqa_module(kind, kind, 16, d, group, False, kind, 1),
        "decode": lambda: decode.get_batch_decode_module(kind, kind, kind, torch.int32, d, d, 0, False, False),
    }
    for backend, dims in (("fa3", DIMS_FA3), ("fa2", DIMS_FA2)):
        for d in dims:
            first[f"{backend} d{d}"] = lambda backend=backend, d=d: prefill.get_batch_prefill_module(
                backend, kind, kind, kind, torch.int32, d, d, 0, False, False, False)
    return first, {"FMHA v2": lambda: prefill.get_trtllm_fmha_v2_module("SEPARATE_Q_K_V", kind, None)}  # 90 kernels


def build():
    start = time.time()

    def make(name, compile_and_load):
        try:
            compile_and_load()
            print(f"FlashInfer, {name}: compiled after {time.time() - start:.0f} s", flush=True)
        except Exception as error:  # noqa: BLE001  one module fewer
            text = str(error)
            at = max(text.find("error:"), 0)
            print(f"FlashInfer, {name}: {type(error).__name__}: {text[:200]} .. {text[max(0, at - 200):at + 600]}", flush=True)

    cores = os.cpu_count() or 2
    for lot in modules():
        os.environ["MAX_JOBS"] = str(max(1, 2 * cores // len(lot) if len(lot) > 1 else cores))
        with concurrent.futures.ThreadPoolExecutor(len(lot)) as pool:
            list(pool.map(make, lot.keys(), lot.values()))


class FlashInfer:
    def __init__(self, name, kinds, prepare):
        self.name, self.kinds, self.prepare_case = f"FlashInfer, {name}", kinds, prepare

    def missing(self, device):
        if device != "cuda":
            return f"not on {device}"
        if importlib.util.find_spec("flashinfer") is None:
            return "flashinfer-python is not installed"
        return None

    def prepare(self, problem):
        case = problem.case
        if case.kind not in self.kinds:
            raise Skip(f"not for {case.kind}")
        compile_nothing()
        outs = [problem.torch.empty_like(s.q) for s in problem.sets[:2]]
        try:
            call = self.prepare_case(problem, outs)
            call(0)
        except NotCompiled:
            raise Skip("its module was not compiled") from None
        return [lambda i=i: call(i) for i in range(len(problem.sets))], self.name


def pages_of(problem):
    """indptr [batch + 1], indices, last_page_len [batch]: on the host, as plan() wants to read them."""
    torch, case = problem.torch, problem.case
    indptr = torch.arange(case.batch + 1, dtype=torch.int32) * (case.length // 16)
    return indptr, problem.table.flatten(), torch.full((case.batch,), 16, dtype=torch.int32)


def ragged(backend):
    def prepare(problem, outs):
        from flashinfer import BatchPrefillWithRaggedKVCacheWrapper

        case = problem.case
        wrapper = BatchPrefillWithRaggedKVCacheWrapper(workspace(), "NHD", backend=backend)
        wrapper.plan(problem.cu_q_host, problem.cu_k_host, case.heads, case.kv_heads, case.d, causal=True,
                     q_data_type=outs[0].dtype, kv_data_type=outs[0].dtype)

        def call(i):
            s = problem.sets[i]
            return wrapper.run(s.q, s.k.flatten(0, 1), s.v.flatten(0, 1), out=outs[i % 2])

        return call

    return prepare


def paged(backend):
    def prepare(problem, outs):
        from flashinfer import BatchPrefillWithPagedKVCacheWrapper

        case = problem.case
        indptr, indices, last = pages_of(problem)
        wrapper = BatchPrefillWithPagedKVCacheWrapper(workspace(), "NHD", backend=backend)
        wrapper.plan(problem.cu_q_host, indptr, indices, last, case.heads, case.kv_heads, case.d, 16,
                     causal=case.kind == "prefill", q_data_type=outs[0].dtype, kv_data_type=outs[0].dtype)

        def call(i):
            s = problem.sets[i]
            return wrapper.run(s.q, (s.k_pages, s.v_pages), out=outs[i % 2])

        return call

    return prepare


def decode(problem, outs):
    from flashinfer import BatchDecodeWithPagedKVCacheWrapper

    case = problem.case
    indptr, indices, last = pages_of(problem)
    wrapper = BatchDecodeWithPagedKVCacheWrapper(workspace(), "NHD", use_tensor_cores=False, backend="fa2")
    wrapper.plan(indptr, indices, last, case.heads, case.kv_heads, case.d, 16, q_data_type=outs[0].dtype, kv_data_type=outs[0].dtype)

    def call(i):
        s = problem.sets[i]
        return wrapper.run(s.q, (s.k_pages, s.v_pages), out=outs[i % 2])

    return call


def xqa(problem, outs):
    from flashinfer.decode import xqa_batch_decode_with_kv_cache

    case, lens = problem.case, problem.lens.view(problem.torch.uint32)
    space = problem.torch.zeros(256 * 2**20, dtype=problem.torch.uint8, device="cuda")  # its semaphores are zero between calls

    def call(i):
        s = problem.sets[i]
        return xqa_batch_decode_with_kv_cache(
            s.q, (s.k_pages, s.v_pages), space, problem.table, lens, case.length,
            bmm1_scale=1 / math.sqrt(case.d), bmm2_scale=1.0, out=outs[i % 2], kv_layout="NHD")

    return call


def fmha_v2(problem, outs):
    from flashinfer.prefill import trtllm_fmha_v2_prefill

    case = problem.case

    def call(i):
        s = problem.sets[i]
        return trtllm_fmha_v2_prefill(
            (s.q, s.k.flatten(0, 1), s.v.flatten(0, 1)), "SEPARATE_Q_K_V", workspace(), problem.lens, case.length, case.length,
            1 / math.sqrt(case.d), 1.0, case.batch, problem.cu_q, problem.cu_k, out=outs[i % 2], mask_mode="causal")

    return call


ADAPTERS = [
    FlashInfer("FA3 ragged", ("prefill",), ragged("fa3")),
    FlashInfer("FA2 ragged", ("prefill",), ragged("fa2")),
    FlashInfer("FMHA v2", ("prefill",), fmha_v2),
    FlashInfer("FA3 pages of 16", ("prefill", "decode"), paged("fa3")),
    FlashInfer("FA2 pages of 16", ("decode",), paged("fa2")),
    FlashInfer("decode on CUDA cores, pages of 16", ("decode",), decode),
    FlashInfer("XQA, pages of 16", ("decode",), xqa),
]

if __name__ == "__main__":
    build()
    sys.exit(0)
