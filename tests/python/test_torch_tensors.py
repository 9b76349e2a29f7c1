# SPDX-License-Identifier: Apache-2.0
"""PyTorch's tensors as arguments, on its CPU. Skipped where it is not installed."""
import re

import numpy as np
import pytest

import fovea

torch = pytest.importorskip("torch")


def test_types_and_outputs():
    x = torch.arange(8.0).reshape(2, 4)
    want = fovea.norm(x.numpy())
    out = fovea.norm(x)
    assert isinstance(out, torch.Tensor) and (out.numpy() == want).all()
    given = torch.empty(2, 4)
    assert fovea.norm(x, out=given) is given
    assert fovea.norm(x.bfloat16()).dtype == torch.bfloat16
    assert fovea.norm(x, out="f16").dtype == torch.float16


def test_fp8_cache():
    k = torch.randn(4, 16, 2, 32).to(torch.float8_e4m3fn)
    table, lens, q = torch.tensor([[1, 3]]), torch.tensor([20]), torch.randn(1, 4, 32)
    cu = torch.tensor([0, 1], dtype=torch.int32)
    kv = fovea.Kv(k=k, v=k, k_scale=torch.tensor([0.5]), v_scale=torch.tensor([0.5]), page_table=table, kv_lens=lens)
    wide = 0.5 * k.float()
    plain = fovea.Kv(k=wide, v=wide, page_table=table, kv_lens=lens)
    got, want = (fovea.attention(q, cache, cu_seqlens_q=cu) for cache in (kv, plain))
    assert (got - want).abs().max() < 1e-5
    with pytest.raises(ValueError, match="kv.k.scale_kind is none"):
        fovea.attention(q, fovea.Kv(k=k, v=k, page_table=table, kv_lens=lens), cu_seqlens_q=cu)


def test_grad_is_refused_while_it_is_recorded():
    x, weight = torch.ones(2, 4), torch.nn.Parameter(torch.ones(4))
    with pytest.raises(ValueError, match=re.escape("weight requires grad, and Fovea has no backward pass: use torch.no_grad() or weight.detach()")):
        fovea.norm(x, weight=weight)
    with torch.no_grad():
        fovea.norm(x, weight=weight)
    fovea.norm(x, weight=weight.detach())


def test_frameworks_mix():
    x = torch.ones(2, 4)
    out = fovea.norm(x, weight=np.full(4, 2, np.float32))
    assert isinstance(out, torch.Tensor) and (out > 1.9).all()


@pytest.mark.parametrize("make", [
    lambda: torch.ones(2, 4, device="meta"), lambda: torch.ones(2, 4).to_sparse(), lambda: torch.ones(2, 4, dtype=torch.complex64),
    lambda: torch.ones(2, 4, dtype=torch.bool), lambda: torch.nn.Linear(2, 2)])
def test_what_is_no_tensor_in_memory(make):
    with pytest.raises((TypeError, ValueError), match="^x"):
        fovea.norm(make())


def test_strides_and_offsets():
    whole = torch.randn(6, 10)
    view = whole[1:5, 2:6]
    assert (fovea.norm(view) == fovea.norm(view.contiguous())).all()
    whole.t_()
    with pytest.raises(ValueError, match=re.escape("x.stride[1] is 10: must be 1")):
        fovea.norm(whole)
