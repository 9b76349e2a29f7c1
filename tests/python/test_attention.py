# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

import fovea
import reference as ref

LENS, NEW, HEADS, KV_HEADS, D = [37, 5, 0, 130], [4, 5, 0, 1], 6, 2, 24


class Problem:
    """Ragged queries, and the same keys contiguous per sequence and in shuffled pages."""

    def __init__(self, rng, page_size=16, dtype=np.float32):
        self.q = (3 * rng.standard_normal((sum(NEW), HEADS, D))).astype(dtype)
        self.k = [rng.standard_normal((n, KV_HEADS, D)).astype(dtype) for n in LENS]
        self.v = [rng.standard_normal((n, KV_HEADS, D)).astype(dtype) for n in LENS]
        self.cu = np.concatenate([[0], np.cumsum(NEW)]).astype(np.int32)
        self.lens = np.array(LENS, np.int32)
        columns = max(-(-n // page_size) for n in LENS)
        self.table = np.full((len(LENS), columns), -1, np.int32)
        free = iter(rng.permutation(64))
        self.k_pages, self.v_pages = (np.full((64, page_size, KV_HEADS, D), np.nan, dtype) for _ in range(2))
        for b, n in enumerate(LENS):
            for t in range(n):
                if t % page_size == 0:
                    self.table[b, t // page_size] = next(free)
                self.k_pages[self.table[b, t // page_size], t % page_size] = self.k[b][t]
                self.v_pages[self.table[b, t // page_size], t % page_size] = self.v[b][t]

    def kv(self, **more):
        return fovea.Kv(k=self.k_pages, v=self.v_pages, page_table=self.table, kv_lens=self.lens, **more)

    def check(self, out, lse, p_unit=0.0, **options):
        """p_unit: unit roundoff of the type that a kernel for 16-bit operands may round its weights to."""
        for b in range(len(LENS)):
            rows = slice(self.cu[b], self.cu[b + 1])
            want, want_lse, bound = ref.attention(self.q[rows], self.k[b], self.v[b], **options)
            size = ref.attention(self.q[rows], self.k[b], abs(self.v[b]), **options)[0]
            ref.close(out[rows], want, bound + 2 * p_unit * size)
            ref.close(lse[rows], want_lse, 1e-4)


@pytest.mark.parametrize("options", [
    {}, {"mask": "causal"}, {"mask": fovea.Mask.WINDOW, "window_left": 6, "window_right": 0}, {"mask": "chunk", "chunk_size": 8},
    {"softcap": 2.0}, {"scale": 0.5}, {"sinks": np.linspace(-2, 3, HEADS).astype(np.float32)},
    {"alibi_slopes": np.linspace(0.1, 1, HEADS).astype(np.float32)},
], ids=lambda o: "_".join(o) or "plain")
def test_options(rng, options):
    p = Problem(rng)
    out, lse = fovea.attention(p.q, p.kv(), cu_seqlens_q=p.cu, lse=True, **options)
    expected = {{"alibi_slopes": "slopes"}.get(k, k): v for k, v in options.items()}
    if isinstance(expected.get("mask"), fovea.Mask):
        expected["mask"] = expected["mask"].name.lower()
    p.check(out, lse, **expected)
    if options:
        assert abs(out - fovea.attention(p.q, p.kv(), cu_seqlens_q=p.cu)).max() > 1e-2


def test_layouts_give_the_same_bits(rng):
    p = Problem(rng)
    paged = fovea.attention(p.q, p.kv(), cu_seqlens_q=p.cu, mask="causal")
    cu_kv = np.concatenate([[0], np.cumsum(LENS)])
    ragged = fovea.Kv(k=np.concatenate(p.k), v=np.concatenate(p.v), cu_seqlens_kv=cu_kv)
    assert (fovea.attention(p.q, ragged, cu_seqlens_q=p.cu.astype(np.int64), mask="causal") == paged).all()
    # [pages, heads, tokens, dims] in memory, permuted to the order of names.
    hnd = fovea.Kv(k=np.ascontiguousarray(p.k_pages.swapaxes(1, 2)).swapaxes(1, 2), v=p.v_pages, page_table=p.table, kv_lens=p.lens)
    assert (fovea.attention(p.q, hnd, cu_seqlens_q=p.cu, mask="causal") == paged).all()
    # K and V in one tensor, as engines keep them.
    both = np.concatenate([p.k_pages, p.v_pages], axis=3)
    packed = fovea.Kv(k=both[..., :D], v=both[..., D:], page_table=p.table, kv_lens=p.lens)
    assert (fovea.attention(p.q, packed, cu_seqlens_q=p.cu, mask="causal") == paged).all()


def test_kv_by_the_fields_of_c(rng):
    p = Problem(rng)
    pages, tokens, heads, d = p.k_pages.shape
    strides = dict(page_stride=p.k_pages.strides[0], token_stride=p.k_pages.strides[1], head_stride=p.k_pages.strides[2])
    side = [fovea.KvSide(codec="f32", data=fovea.KvStream(base=x.ctypes.data, **strides)) for x in (p.k_pages, p.v_pages)]
    kv = fovea.Kv(k=side[0], v=side[1], heads=heads, d_k=d, d_v=d, page_size=tokens, pages=pages, page_table=p.table, kv_lens=p.lens)
    out = np.empty_like(p.q)
    assert fovea.attention(p.q, kv, cu_seqlens_q=p.cu, out=out) is out
    assert (out == fovea.attention(p.q, p.kv(), cu_seqlens_q=p.cu)).all()


def test_padded_queries_and_contiguous_cache(rng):
    q = rng.standard_normal((2, 3, 4, 16)).astype(np.float32)
    k, v = (rng.standard_normal((2, 8, 2, 16)).astype(np.float32) for _ in range(2))
    lens = np.array([8, 5], np.int32)
    out = fovea.attention(q, fovea.Kv(k=k, v=v, kv_lens=lens), mask="causal", q_lens=np.array([3, 2], np.int32))
    ref.close(out[0], *ref.attention(q[0], k[0], v[0], mask="causal")[::2])
    ref.close(out[1, :2], *ref.attention(q[1, :2], k[1, :5], v[1, :5], mask="causal")[::2])
    assert (out[1, 2] == 0).all()


def test_half_types(rng):
    p = Problem(rng, dtype=np.float16)
    out = fovea.attention(p.q, p.kv(), cu_seqlens_q=p.cu)
    assert out.dtype == np.float16
    wide, lse = fovea.attention(p.q, p.kv(), cu_seqlens_q=p.cu, out="f32", lse=True)
    assert wide.dtype == np.float32
    p.check(wide, lse, p_unit=2.0**-12)
    assert (wide.astype(np.float16) == out).all()


def test_bf16_by_name(rng):
    p = Problem(rng)
    bits = {name: ref.bf16_bits(getattr(p, name)) for name in ("q", "k_pages", "v_pages")}
    as_bf16 = lambda x: fovea.Tensor(x, "bf16")
    kv = fovea.Kv(k=as_bf16(bits["k_pages"]), v=as_bf16(bits["v_pages"]), page_table=p.table, kv_lens=p.lens)
    out, lse = fovea.attention(as_bf16(bits["q"]), kv, cu_seqlens_q=p.cu, out="f32", lse=True)
    p.q = ref.bf16_values(bits["q"])
    p.k, p.v = ([ref.bf16_values(ref.bf16_bits(x)) for x in side] for side in (p.k, p.v))
    p.check(out, lse, p_unit=2.0**-9)


@pytest.mark.parametrize("kind", ["tensor", "head", "token_head", "group"])
def test_fp8_scales(rng, kind):
    p = Problem(rng)
    shape = p.k_pages.shape
    codes = rng.integers(0, 0x70, shape).astype(np.uint8) | (rng.integers(0, 2, shape) << 7).astype(np.uint8)
    scales = {"tensor": (1,), "head": shape[2:3], "token_head": shape[:3], "group": shape[:3] + (3,)}[kind]
    scale = (0.01 + 0.02 * rng.random(scales)).astype(np.float32)
    spread = np.repeat(scale, D // 3, axis=3) if kind == "group" else scale.reshape(scales + (1,)) if kind != "tensor" else scale
    values = (ref.e4m3(codes) * spread).astype(np.float64)
    fp8 = fovea.Tensor(codes, "e4m3")
    kv = fovea.Kv(k=fp8, v=fp8, k_scale=scale, v_scale=scale, page_table=p.table, kv_lens=p.lens)
    out, lse = fovea.attention(p.q, kv, cu_seqlens_q=p.cu, lse=True)
    p.k = p.v = [np.stack([values[p.table[b, t // 16], t % 16] for t in range(n)]) if n else np.empty((0, KV_HEADS, D))
                 for b, n in enumerate(LENS)]
    p.check(out, lse)


def test_segments_are_the_whole(rng):
    p = Problem(rng)
    halves = []
    for part in range(2):
        sides = {name: [x[: len(x) // 2] if part == 0 else x[len(x) // 2 :] for x in getattr(p, name)] for name in "kv"}
        cu = np.concatenate([[0], np.cumsum([len(x) for x in sides["k"]])]).astype(np.int32)
        halves.append(fovea.Kv(k=np.concatenate(sides["k"]), v=np.concatenate(sides["v"]), cu_seqlens_kv=cu))
    out, lse = fovea.attention(p.q, halves, cu_seqlens_q=p.cu, lse=True)
    p.check(out, lse)
    parts = [fovea.attention(p.q, half, cu_seqlens_q=p.cu, lse=True) for half in halves]
    merged, merged_lse = fovea.merge_states([o for o, _ in parts], [s for _, s in parts], lse=True)
    p.check(merged, merged_lse)


def test_mla(rng):
    latent, rope = (rng.standard_normal((4, 16, 1, n)).astype(np.float32) for n in (32, 8))
    q = rng.standard_normal((3, 4, 40)).astype(np.float32)
    kv = fovea.Kv(k=latent, k_rope=rope, v_in_k=True, d_v=32, page_table=np.array([[2, 0]], np.int32), kv_lens=np.array([19], np.int32))
    out = fovea.attention(q, kv, cu_seqlens_q=np.array([0, 3], np.int32), mask="causal")
    k = np.concatenate([latent, rope], axis=3)[[2, 0]].reshape(32, 1, 40)[:19]
    ref.close(out, *ref.attention(q, k, k[:, :, :32], mask="causal")[::2])


def test_plan_serves_other_lengths(rng):
    p = Problem(rng)
    shapes = {name: fovea.Tensor(shape=getattr(p, name).shape, dtype="f32") for name in ("q", "k_pages", "v_pages")}
    kv = fovea.Kv(k=shapes["k_pages"], v=shapes["v_pages"], page_table=p.table, kv_lens=p.lens)
    plan = fovea.plan("attention", shapes["q"], kv, cu_seqlens_q=p.cu, mask="causal", lse=True)
    assert "cpu_tiles" in plan.explain() and plan.scratch_bytes >= 0
    out, lse = plan(p.q, p.kv(), cu_seqlens_q=p.cu, lse=True)
    p.check(out, lse, mask="causal")
    one = plan(p.q[:1], p.kv(), cu_seqlens_q=np.array([0, 0, 0, 0, 1], np.int32), lse=True)[0]
    ref.close(one, *ref.attention(p.q[:1], p.k[3], p.v[3], mask="causal")[::2])
    with pytest.raises(ValueError, match="the plan was made for"):
        plan(np.concatenate([p.q, p.q]), p.kv(), cu_seqlens_q=2 * p.cu, lse=True)
