#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The package on a CUDA card, with PyTorch: values, streams, graphs, lifetimes, words of errors, and what a call costs.

    python tests/python/gpu_checks.py [pytest's options]     all of it; the last line is JSON with the costs
    python -m pytest tests/python/gpu_checks.py -k stream    a part

Needs PyTorch for CUDA, NumPy, pytest and the package fovea (installed, or PYTHONPATH=build-release/python). Kernels that the
bundle lacks are compiled by NVRTC where there is one.
"""
import json
import pathlib
import re
import statistics
import sys
import time

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no CUDA card", allow_module_level=True)

import fovea  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import reference as ref  # noqa: E402
from test_attention import KV_HEADS, LENS, Problem  # noqa: E402

CUDA = torch.device("cuda", 0)
SLOW = 200_000_000  # cycles of a kernel that is still running when the host has gone on: about 0.1 s


@pytest.fixture(scope="module", autouse=True)
def context():
    return fovea.Context("cuda:0", compile="allowed").set_default()


@pytest.fixture
def rng(request):
    return np.random.default_rng(sum(map(ord, request.node.name)))


def to_cuda(x, dtype=None):
    return torch.from_numpy(np.ascontiguousarray(x)).to(CUDA, dtype)


class OnCard:
    """The ragged problem of test_attention in a 16-bit type, its values rounded on both sides."""

    def __init__(self, rng, dtype=torch.bfloat16):
        self.p = p = Problem(rng)
        for name in ("q", "k_pages", "v_pages"):
            setattr(p, name, to_cuda(getattr(p, name)).to(dtype).float().cpu().numpy())
        p.k, p.v = ([to_cuda(x).to(dtype).float().cpu().numpy() for x in side] for side in (p.k, p.v))
        self.q = to_cuda(p.q, dtype)
        self.k, self.v = to_cuda(p.k_pages, dtype), to_cuda(p.v_pages, dtype)
        self.table, self.lens, self.cu = to_cuda(p.table), to_cuda(p.lens), to_cuda(p.cu)

    def kv(self, **more):
        return fovea.Kv(**{**dict(k=self.k, v=self.v, page_table=self.table, kv_lens=self.lens), **more})

    def call(self, **more):
        return fovea.attention(self.q, self.kv(), cu_seqlens_q=self.cu, **more)

    def check(self, out, lse=None, **options):
        p, out = self.p, out.float().cpu().numpy()
        for b in range(len(LENS)):
            rows = slice(p.cu[b], p.cu[b + 1])
            want, want_lse, _ = ref.attention(p.q[rows], p.k[b], p.v[b], **options)
            size = ref.attention(p.q[rows], p.k[b], abs(p.v[b]), **options)[0]
            ref.close(out[rows], want, 2.0**-6 * size)
            if lse is not None:
                ref.close(lse.cpu().numpy()[rows], want_lse, 1e-3)


# -- values --

@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("options", [
    {}, {"mask": "causal"}, {"mask": "window", "window_left": 6, "window_right": 0}, {"softcap": 2.0},
    {"sinks": np.linspace(-2, 3, 6).astype(np.float32)}], ids=lambda o: "_".join(o) or "plain")
def test_attention(rng, dtype, options):
    card = OnCard(rng, dtype)
    given = {k: to_cuda(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    out, lse = card.call(lse=True, **given)
    assert out.device == CUDA and out.dtype == dtype and lse.dtype == torch.float32
    card.check(out, lse, **options)


def test_outputs_given_and_types(rng):
    card = OnCard(rng)
    out, lse = torch.full_like(card.q, torch.nan), torch.full(card.q.shape[:2], torch.nan, device=CUDA)
    got = card.call(out=out, lse=lse, mask="causal")
    assert got[0] is out and got[1] is lse
    card.check(out, lse, mask="causal")
    card.check(card.call(out="f32", mask="causal"), mask="causal")


def test_kv_append_then_merge(rng):
    card = OnCard(rng)
    keys = torch.randn(4, KV_HEADS, card.k.shape[3], device=CUDA, dtype=torch.bfloat16)
    slots = torch.tensor([3, -1, 40, 1000], device=CUDA)
    host = [t.cpu().clone() for t in (card.k, card.v)]
    fovea.kv_append(keys, 2 * keys, card.kv(), slots)
    fovea.kv_append(keys.cpu(), 2 * keys.cpu(), fovea.Kv(k=host[0], v=host[1]), slots.cpu())
    assert torch.equal(card.k.cpu().view(torch.int16), host[0].view(torch.int16)) and torch.equal(card.v.cpu().view(torch.int16), host[1].view(torch.int16))
    out, lse = card.call(lse=True)
    merged = fovea.merge_states([out, out], [lse, lse])
    assert torch.allclose(merged.float(), out.float(), atol=1e-2)


def test_plan(rng):
    card = OnCard(rng)
    plan = fovea.plan("attention", card.q, card.kv(), cu_seqlens_q=card.cu, mask="causal")
    card.check(plan(card.q, card.kv(), cu_seqlens_q=card.cu), mask="causal")
    assert "sm" in plan.explain()


# -- streams --

def busy():
    torch.cuda._sleep(SLOW)


def test_the_current_stream_is_used_and_nothing_waits(rng):
    card = OnCard(rng)
    card.call(mask="causal")
    torch.cuda.synchronize()
    right, side = card.q.clone(), torch.cuda.Stream()
    card.q.fill_(torch.nan)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        busy()
        card.q.copy_(right)  # what the call reads is written late, on the same stream
        start = time.perf_counter()
        out = card.call(mask="causal")
        took = time.perf_counter() - start
        assert not side.query(), "the slow kernel had ended: the host waited"
    assert took < 0.02
    side.synchronize()
    card.check(out, mask="causal")


@pytest.mark.parametrize("as_object", [True, False])
def test_a_stream_is_passed(rng, as_object):
    card = OnCard(rng)
    card.call()
    right, side = card.q.clone(), torch.cuda.Stream()
    card.q.fill_(torch.nan)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        busy()
        card.q.copy_(right)
    out = card.call(stream=side if as_object else side.cuda_stream)
    assert not side.query()
    side.synchronize()
    card.check(out)


def test_tensors_may_go_while_a_kernel_runs(rng):
    card = OnCard(rng)
    card.call()
    torch.cuda.synchronize()
    for stream in (None, torch.cuda.Stream()):
        other = OnCard(np.random.default_rng(5))
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            busy()
        out = other.call(mask="causal", stream=stream)
        sizes = [(t.shape, t.dtype) for t in (other.q, other.k, other.v, other.table, other.lens, other.cu)]
        for name in ("q", "k", "v", "table", "lens", "cu"):
            delattr(other, name)
        garbage = [torch.full(shape, 77, device=CUDA, dtype=dtype) for shape, dtype in sizes]  # takes freed memory at once
        torch.cuda.synchronize()
        other.check(out, mask="causal")
        del garbage


def test_two_streams_at_once(rng):
    card = OnCard(rng)
    want = card.call(mask="causal")
    torch.cuda.synchronize()
    streams, outs = [torch.cuda.Stream() for _ in range(4)], []
    for i in range(80):
        with torch.cuda.stream(streams[i % 4]):
            outs.append(card.call(mask="causal"))
    torch.cuda.synchronize()
    assert all(torch.equal(out, want) for out in outs)


# -- graphs --

def test_graph_of_calls_replayed_with_other_lengths(rng):
    card = OnCard(rng)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        card.call(mask="causal")
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        out = card.call(mask="causal")
    full = card.lens.clone()
    for shorter in (0, 3, 0):
        card.lens.copy_((full - shorter).clamp(min=0))
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, card.call(mask="causal"))
    card.check(out, mask="causal")


def test_graph_with_split_keys(rng):
    """Long keys: partial results in scratch, merged; workspace comes from the graph's own pool."""
    k = torch.randn(1, 8192, 2, 64, device=CUDA, dtype=torch.bfloat16)
    q, lens = torch.randn(1, 1, 8, 64, device=CUDA, dtype=torch.bfloat16), torch.tensor([8192], device=CUDA)
    kv = fovea.Kv(k=k, v=k, kv_lens=lens)
    want = fovea.attention(q, kv)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = fovea.attention(q, kv)
    for _ in range(3):
        out.fill_(torch.nan)
        graph.replay()
        fovea.attention(q, kv)  # another call between replays, with words of its own
        torch.cuda.synchronize()
        assert torch.equal(out, want)


# -- words --

def test_devices_that_differ(rng):
    card = OnCard(rng)
    for name, arguments in [
        ("cu_seqlens_q", dict(cu_seqlens_q=card.cu.cpu())),
        ("kv.page_table", dict(kv=card.kv(page_table=card.table.cpu()))),
        ("kv.kv_lens", dict(kv=card.kv(kv_lens=card.lens.cpu()))),
        ("out", dict(out=torch.empty_like(card.q, device="cpu"))),
        ("sinks", dict(sinks=torch.zeros(6))),
    ]:
        with pytest.raises(ValueError, match=re.escape(f"{name}.device is cpu: the context is on cuda:0")):
            fovea.attention(**{**dict(q=card.q, kv=card.kv(), cu_seqlens_q=card.cu), **arguments})
    with pytest.raises(ValueError, match=re.escape("kv.k is on cpu: must be on cuda:0 (q)")):
        fovea.attention(card.q, fovea.Kv(k=card.k.cpu(), v=card.v.cpu(), page_table=card.table, kv_lens=card.lens), cu_seqlens_q=card.cu)
    with pytest.raises(ValueError, match=re.escape("v is on cpu: must be on cuda:0 (k)")):
        card.kv(v=card.v.cpu())
    with pytest.raises(ValueError, match="q requires grad"):
        fovea.attention(card.q.requires_grad_(), card.kv(), cu_seqlens_q=card.cu)


def test_what_cuda_does_not_serve_says_so():
    with pytest.raises(NotImplementedError):
        fovea.norm(torch.ones(2, 4, device=CUDA))
    assert not fovea.supports("norm", torch.ones(2, 4, device=CUDA))


def test_status_and_check(rng):
    card = OnCard(rng)
    card.table[0, 0] = 1000
    status = torch.zeros(1, dtype=torch.int32, device=CUDA)
    with pytest.raises(ValueError, match=re.escape("kv.page_table[0][0] is 1000")):
        card.call(check=True)
    card.call(status=status)
    torch.cuda.synchronize()
    with pytest.raises(ValueError, match="status has 8 bytes"):
        card.call(status=torch.zeros(2, dtype=torch.int32, device=CUDA))


# -- fovea.torch --

def cuda_cases():
    import test_torch_ops as ops

    ops.DEVICE = "cuda"
    return ops, [(name, arguments) for name, arguments in ops.cases()]


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("backend, mode", [("aot_eager", None), ("inductor", None), ("inductor", "reduce-overhead")])
def test_compiled_is_eager(which, backend, mode):
    ops, cases = cuda_cases()
    name, arguments = cases[which]
    torch._dynamo.reset()
    function = getattr(ops.ft, name)
    eager, compiled = ops.copied(arguments), ops.copied(arguments)
    want = ops.tensors([function(**eager)]) + ops.tensors(eager)
    run = torch.compile(lambda arguments: function(**arguments), fullgraph=True, backend=backend, mode=mode)
    for _ in range(3):
        compiled = ops.copied(arguments)
        got = ops.tensors([run(compiled)]) + ops.tensors(compiled)
        assert len(got) == len(want)
        for a, b in zip(got, want):
            assert torch.equal(a.nan_to_num(1e3), b.nan_to_num(1e3))


@pytest.mark.parametrize("which", range(4))
def test_opcheck(which, monkeypatch):
    ops, cases = cuda_cases()
    name, arguments = cases[which]
    calls = []
    operator = getattr(torch.ops.fovea, name).default
    monkeypatch.setattr(ops.ft, "_operator", lambda name: lambda **flat: calls.append(flat))
    ops.ft._function(name)(**ops.copied(arguments))
    torch.library.opcheck(operator, (), calls[0])


# -- costs --

def microseconds(call, rounds=15, calls=400):
    """The median time that the host takes for a call, with a queue that never fills."""
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - start) / calls * 1e6)
        torch.cuda.synchronize()
    return round(statistics.median(times), 2)


def costs():
    """Host time of a decode call of small work, given outputs: Fovea from Python and in C++ alone, SDPA beside it."""
    batch, heads, kv_heads, d, length = 1, 8, 2, 64, 64
    q = torch.randn(batch, heads, d, device=CUDA, dtype=torch.bfloat16)
    k, v = (torch.randn(batch, length, kv_heads, d, device=CUDA, dtype=torch.bfloat16) for _ in "kv")
    lens, cu = torch.full((batch,), length, device=CUDA, dtype=torch.int32), torch.arange(batch + 1, device=CUDA, dtype=torch.int32)
    kv, out = fovea.Kv(k=k, v=v, kv_lens=lens), torch.empty_like(q)
    arguments = dict(cu_seqlens_q=cu, out=out, mask="causal", max_q_len=1)
    plan = fovea.plan("attention", q, kv, **arguments)
    import fovea.torch as ft

    torch_kv = ft.Kv(k=k, v=v, kv_lens=lens)
    q4, k4, v4 = q[:, :, None], k.transpose(1, 2).contiguous(), v.transpose(1, 2).contiguous()
    sdpa = torch.nn.functional.scaled_dot_product_attention
    for _ in range(3):
        plan._time(100, (q, kv), arguments)
    with torch.no_grad():
        result = {
            "plan_in_cpp": round(statistics.median(plan._time(400, (q, kv), arguments) * 1e6 for _ in range(15)), 2),
            "plan_from_python": microseconds(lambda: plan(q, kv, **arguments)),
            "attention": microseconds(lambda: fovea.attention(q, kv, **arguments)),
            "attention_with_new_kv": microseconds(lambda: fovea.attention(q, fovea.Kv(k=k, v=v, kv_lens=lens), **arguments)),
            "attention_allocating": microseconds(lambda: fovea.attention(q, kv, cu_seqlens_q=cu, mask="causal", max_q_len=1)),
            "fovea.torch.attention": microseconds(lambda: ft.attention(q, torch_kv, **arguments)),
            "torch_sdpa": microseconds(lambda: sdpa(q4, k4, v4, enable_gqa=True)),
        }
    result["scratch_bytes"], result["sync_bytes"] = plan.scratch_bytes, plan.sync_bytes
    return {"card": torch.cuda.get_device_name(), "torch": torch.__version__, "python": sys.version.split()[0], "microseconds": result}


def test_cost_of_a_call():
    result = costs()["microseconds"]
    print(json.dumps(result))
    assert result["plan_from_python"] - result["plan_in_cpp"] <= 10


if __name__ == "__main__":
    code = pytest.main([__file__, "-q", *sys.argv[1:]])
    fovea.Context("cuda:0", compile="allowed").set_default()
    print(json.dumps(costs()))
    sys.exit(code)
