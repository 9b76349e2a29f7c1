# SPDX-License-Identifier: Apache-2.0
"""fovea.torch on PyTorch's CPU: each operator passes opcheck, and its function compiles into one graph with equal results.
Skipped where PyTorch is not installed; gpu_torch.py has the same on CUDA."""
import sys
import types

import pytest

torch = pytest.importorskip("torch")

import fovea  # noqa: E402
import fovea.torch as ft  # noqa: E402

DEVICE = "cpu"

if not torch.distributed.is_available():  # that of bench/peers/setup_torch.py: what asks for the class finds one
    sys.modules.setdefault("torch.distributed.tensor", types.SimpleNamespace(DTensor=type("DTensor", (), {})))


def normal(*shape, dtype=None):
    """CUDA has no cache of f32."""
    dtype = dtype or (torch.float32 if DEVICE == "cpu" else torch.float16)
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(DEVICE, dtype)


def index(*values):
    return torch.tensor(values, device=DEVICE)


def cache(dtype=None):
    return ft.Kv(k=normal(6, 16, 2, 32, dtype=dtype), v=normal(6, 16, 2, 32, dtype=dtype), page_table=index([3, 1], [5, 0]), kv_lens=index(20, 7))


# name: (call of fovea.torch with what it needs, the same with outputs given)
def cases():
    x, w = normal(4, 64), normal(8, 64)
    kv, q, cu = cache(), normal(3, 4, 32), index(0, 1, 3)
    blocks = fovea.quantize(w.cpu(), out="q8_0").base.to(DEVICE) if DEVICE == "cpu" else None
    out, lse = normal(3, 4, 32), normal(3, 4, dtype=torch.float32)
    yield "attention", dict(q=q, kv=kv, cu_seqlens_q=cu, mask="causal", lse=True)
    yield "attention", dict(q=q, kv=[kv, cache()], cu_seqlens_q=cu, softcap=3.0, out=out.clone())
    yield "merge_states", dict(outs=[out, 2 * out], lses=[lse, 3 * lse], lse=True)
    yield "kv_append", dict(k=normal(3, 2, 32), v=normal(3, 2, 32), kv=kv, slot_mapping=index(5, 90, 17), q=q, rope={"theta": 500.0}, positions=index(1, 2, 3))
    if DEVICE != "cpu":
        return
    yield "kv_copy", dict(src=kv, dst=cache(), copies=index([2, 0], [4, 3]))
    yield "rope", dict(x=q, positions=index(4, 8, 2), config={"theta": 100.0, "style": "gptj"})
    yield "norm", dict(x=x, weight=normal(64), residual=normal(4, 64), residual_out=True)
    yield "norm", dict(x=x, kind=fovea.NormKind.L2, out="f16")
    yield "glu", dict(gate=x, up=2 * x, kind="gelu_tanh")
    yield "matmul", dict(x=x, w=w, bias=normal(8))
    yield "matmul", dict(x=x, w=blocks, w_dtype="q8_0")
    yield "embed", dict(ids=index(3, 0, 7), table=w)
    yield "embed", dict(ids=index(3, 0, 7), table=blocks, table_dtype="q8_0")
    yield "sample", dict(logits=x, temperature=0.7, top_k=9, seed=3, positions=index(1, 2, 3, 4), logprobs=True, top_ids=(4, 2), top_logprobs=True)
    yield "quantize", dict(x=w, out="q8_0")
    yield "verify", dict(target={"logits": x}, cu_nodes=index(0, 4), draft_tokens=index(0, 5, 6, 7), tokens=(1, 4))


CASES = [pytest.param(name, arguments, id=f"{name}-{i}") for i, (name, arguments) in enumerate(cases())]


def copied(value):
    """The same arguments in memory of their own."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, ft.Kv):
        return ft.Kv(**copied(value.fields))
    if isinstance(value, dict):
        return {key: copied(inner) for key, inner in value.items()}
    return [copied(inner) for inner in value] if isinstance(value, list) else value


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, ft.Kv):
        return tensors(value.fields)
    if isinstance(value, dict):
        value = list(value.values())
    return [t for inner in value for t in tensors(inner)] if isinstance(value, (list, tuple)) else []


@pytest.mark.parametrize("name, arguments", CASES)
def test_compiled_is_eager(name, arguments):
    """Results, and what was written in place."""
    torch._dynamo.reset()
    function = getattr(ft, name)
    eager, compiled = copied(arguments), copied(arguments)
    want = tensors([function(**eager)]) + tensors(eager)
    got = tensors([torch.compile(lambda arguments: function(**arguments), fullgraph=True, backend="aot_eager")(compiled)]) + tensors(compiled)
    assert len(got) == len(want) > 0
    for a, b in zip(got, want):
        assert a.dtype == b.dtype and torch.equal(a, b)


@pytest.mark.parametrize("name, arguments", CASES)
def test_opcheck(name, arguments, monkeypatch):
    calls = []
    operator = getattr(torch.ops.fovea, name).default
    monkeypatch.setattr(ft, "_operator", lambda name: lambda **flat: calls.append(flat))
    ft._function(name)(**copied(arguments))
    torch.library.opcheck(operator, (), calls[0])


def test_is_the_call_of_fovea():
    for name, arguments in cases():
        if "w_dtype" in arguments or "table_dtype" in arguments or name in ("quantize", "kv_append", "kv_copy", "attention", "verify"):
            continue
        got, want = (tensors([function(**copied(arguments))]) for function in (getattr(ft, name), getattr(fovea, name)))
        assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True)), name


def test_words():
    x = normal(2, 8)
    with pytest.raises(TypeError, match="kv: must be a fovea.torch.Kv or a dict"):
        ft.attention(x, 5)
    with pytest.raises(TypeError, match="two values for 'x'"):
        ft.norm(x, x=x)
    with pytest.raises(ValueError, match="kind is 'rmsnorm'"):
        ft.norm(x, kind="rmsnorm")
    with pytest.raises(ValueError, match="weight requires grad"):
        ft.norm(x, weight=torch.ones(8, requires_grad=True, device=DEVICE))
    assert "Tensor(a!)? out" in ft.norm.__doc__
