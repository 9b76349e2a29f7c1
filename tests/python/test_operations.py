# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

import fovea
import reference as ref


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("kind", ["rms", "layer", "l2"])
def test_norm(rng, kind):
    x = normal(rng, 3, 7, 40)
    ref.close(fovea.norm(x, kind=kind), *ref.norm(x, kind)[::2])


def test_norm_with_everything(rng):
    x, residual, gate, weight = normal(rng, 5, 40), normal(rng, 5, 40), normal(rng, 5, 40), normal(rng, 40)
    out, total = fovea.norm(x, weight=weight, weight_offset=1, residual=residual, residual_out=True, gate=gate, gate_kind="silu", eps=1e-5)
    want, want_total, bound = ref.norm(x, weight=weight, weight_offset=1, residual=residual, gate=gate, eps=1e-5)
    ref.close(out, want, bound)
    ref.close(total, want_total, 2 * ref.U * abs(want_total))
    again = residual.copy()
    assert fovea.norm(x, residual=again, residual_out=again, out=x)[0] is x
    assert (again == total).all()


@pytest.mark.parametrize("style", ["neox", "gptj"])
@pytest.mark.parametrize("scaling", ["none", "linear", "ntk"])
def test_rope(rng, style, scaling):
    x, positions = normal(rng, 6, 3, 16), rng.integers(0, 5000, 6)
    config = fovea.RopeConfig(style=style, rotary_dim=12, theta=500.0, scaling=scaling, factor=1.0 if scaling == "none" else 4.0)
    frequencies = ref.inverse_frequencies(12, 500.0, scaling, 4.0 if scaling != "none" else 1)
    want, bound = ref.rope(x, positions, frequencies, style)
    ref.close(fovea.rope(x, positions, config), want, bound)


def test_rope_takes_a_dict_and_works_in_place(rng):
    x, positions = normal(rng, 6, 3, 16), np.arange(6)
    want = fovea.rope(x, positions, fovea.RopeConfig(theta=100.0))
    assert fovea.rope(x, positions, {"theta": 100.0}, out=x) is x
    assert (x == want).all()


@pytest.mark.parametrize("kind", [kind.name.lower() for kind in fovea.GluKind])
def test_glu(rng, kind):
    both = 4 * normal(rng, 5, 64)
    for gate, up in [(both[:, :32], both[:, 32:]), (both[:, ::2], both[:, 1::2])]:
        ref.close(fovea.glu(gate, up, kind=kind), *ref.glu(gate, up, kind))


def test_matmul_and_quantize(rng):
    x, w, bias = normal(rng, 3, 64), normal(rng, 10, 64), normal(rng, 10)
    ref.close(fovea.matmul(x, w, bias=bias), *ref.product(x, w, bias))
    blocks = fovea.quantize(w, out="q8_0")
    assert blocks.shape == (10, 64) and blocks.base.shape == (10, 68) and blocks.dtype == "q8_0"
    values = ref.blocks_q8_0(blocks.base)
    assert abs(values - w).max() < abs(w).max() / 127
    want, bound = ref.product(x, values)
    ref.close(fovea.matmul(x, blocks), want, 4 * bound + 1e-2 * (abs(x).max(axis=1, keepdims=True) / 127 * 64**0.5))
    codes = np.empty(w.shape, np.uint8)
    _, scale = fovea.quantize(w, out=fovea.Tensor(codes, "e4m3"), scale=(10,))
    values = ref.e4m3(codes) * scale[:, None]
    assert abs(values - w).max() < abs(w).max() / 8
    ref.close(fovea.matmul(x, fovea.Tensor(codes, "e4m3"), w_scale=scale), *ref.product(x, values))


def test_embed(rng):
    table, ids = normal(rng, 20, 16), rng.integers(0, 20, 7)
    assert (fovea.embed(ids, table, scale=2.0) == 2 * table[ids]).all()
    blocks = fovea.quantize(normal(rng, 20, 32), out="q8_0")
    ref.close(fovea.embed(ids, blocks), ref.blocks_q8_0(blocks.base)[ids], 1e-6)


def test_sample(rng):
    logits = normal(rng, 4, 50)
    tokens, logprobs, top_ids, top = fovea.sample(logits, logprobs=True, top_ids=(4, 3), top_logprobs=True)
    wide = logits.astype(np.float64)
    want = wide - np.log(np.exp(wide).sum(axis=1, keepdims=True))
    order = np.argsort(-wide, axis=1)[:, :3]
    assert (tokens == order[:, 0]).all() and (top_ids == order).all()
    ref.close(top, np.take_along_axis(want, order, 1), 1e-5)
    ref.close(logprobs, want.max(axis=1), 1e-5)


def test_sample_draws_what_it_says(rng):
    logits = np.repeat(normal(rng, 1, 12), 4000, axis=0)
    positions = np.arange(4000)
    tokens, probs = fovea.sample(logits, temperature=0.8, top_k=5, seed=7, positions=positions, probs=True)
    assert (tokens == fovea.sample(logits, temperature=0.8, top_k=5, seed=7, positions=positions)).all()
    wide = logits[0].astype(np.float64) / 0.8
    keep = np.argsort(-wide)[:5]
    want = np.zeros(12)
    want[keep] = np.exp(wide[keep]) / np.exp(wide[keep]).sum()
    ref.close(probs[0], want, 1e-6)
    share = np.bincount(tokens, minlength=12) / 4000
    assert (abs(share - want) < 4 * np.sqrt(want * (1 - want) / 4000) + 1e-9).all()


def test_verify_accepts_the_greedy_chain(rng):
    logits = normal(rng, 4, 30)
    best = logits.argmax(axis=1)
    drafts = np.array([0, best[0], best[1], (best[2] + 1) % 30])
    accepted, tokens, nodes = fovea.verify(fovea.SampleParams(logits=logits), np.array([0, 4]), drafts, tokens=(1, 4), nodes=(1, 4))
    assert accepted.tolist() == [2]
    assert tokens.tolist() == [[best[0], best[1], best[2], -1]]
    assert nodes.tolist() == [[1, 2, -1, -1]]


def test_kv_append_and_copy(rng):
    k, v, q = normal(rng, 5, 2, 16), normal(rng, 5, 2, 16), normal(rng, 5, 4, 16)
    cache_k, cache_v = np.zeros((6, 4, 2, 16), np.float32), np.zeros((6, 4, 2, 16), np.float32)
    kv = fovea.Kv(k=cache_k, v=cache_v)
    slots = np.array([9, 3, -1, 20, 14])
    weight, positions = normal(rng, 16), np.array([5, 9, 1, 100, 7])
    q_out = fovea.kv_append(k, v, kv, slots, q=q, rope={"theta": 1000.0}, positions=positions, q_norm_weight=weight, k_norm_weight=weight)
    frequencies = ref.inverse_frequencies(16, 1000.0)
    want_q, bound = ref.rope(ref.norm(q, weight=weight)[0], positions, frequencies)
    ref.close(q_out, want_q, bound + 64 * ref.U * 8)
    want_k, _ = ref.rope(ref.norm(k, weight=weight)[0], positions, frequencies)
    flat_k, flat_v = cache_k.reshape(24, 2, 16), cache_v.reshape(24, 2, 16)
    for token, slot in enumerate(slots):
        if slot >= 0:
            ref.close(flat_k[slot], want_k[token], 1e-5)
            assert (flat_v[slot] == v[token]).all()
    assert not flat_k[[s for s in range(24) if s not in slots]].any()
    assert fovea.kv_append(k, v, kv, slots) is None
    before = cache_k.copy()
    assert fovea.kv_copy(kv, kv, np.array([[2, 1]])) is None
    assert (cache_k[1] == before[2]).all() and (cache_v[1] == cache_v[2]).all()


def test_page_pool():
    pool = fovea.PagePool(pages=6, page_size=4)
    parent = pool.open()
    slots, copy = pool.append(parent, 6)
    assert len(slots) == 6 and copy is None
    pages = pool.pages(parent)
    assert [s // 4 for s in slots] == [pages[0]] * 4 + [pages[1]] * 2
    assert np.asarray(slots).dtype == np.int64
    child = pool.fork(parent, 6)
    slots, (src, dst) = pool.append(child, 1)
    assert src == pages[1] and dst == pool.pages(child)[1] and slots[0] == dst * 4 + 2
    assert pool.stats() == {"pages": 6, "free_pages": 3, "shared_pages": 1, "sequences": 2}
    with pytest.raises(MemoryError):
        pool.append(child, 100)
    pool.truncate(child, 2)
    assert pool.tokens(child) == 2
    pool.drop_before(parent, 4)
    assert pool.pages(parent)[0] == -1
    pool.close(parent)
    with pytest.raises(ValueError, match="sequence"):
        pool.tokens(parent)
