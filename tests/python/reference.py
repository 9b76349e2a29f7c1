# SPDX-License-Identifier: Apache-2.0
"""Plain fp64 references in NumPy, each with a bound on the error of every element of an f32 kernel."""
import numpy as np

U = 2.0**-24  # of f32


def attention(q, k, v, *, scale=None, mask="none", window_left=-1, window_right=-1, chunk_size=0, softcap=0.0, slopes=None, sinks=None):
    """One sequence: q [n, heads, d], k and v [len, kv heads, d]. Returns (out, lse, bound of out)."""
    n, heads, d = q.shape
    length, kv_heads, _ = k.shape
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, heads // kv_heads, axis=1) for x in (k, v))
    scale = scale or d**-0.5
    logits = scale * np.einsum("nhd,lhd->hnl", q, k)
    noise = U * (d + 4) * scale * np.einsum("nhd,lhd->hnl", abs(q), abs(k))  # of a logit
    if softcap:
        logits = softcap * np.tanh(logits / softcap)
    p, j = length - n + np.arange(n)[:, None], np.arange(length)[None, :]
    if slopes is not None:
        logits = logits - np.asarray(slopes, np.float64)[:, None, None] * abs(p - j)
    seen = np.ones((n, length), bool)
    if mask != "none" and mask != "window":
        seen &= j <= p
    if mask == "window":
        seen &= (j >= p - window_left) if window_left >= 0 else True
        seen &= (j <= p + window_right) if window_right >= 0 else True
    if mask == "chunk":
        seen &= j // chunk_size == p // chunk_size
    logits = np.where(seen, logits, -np.inf)
    extra = np.full(heads, -np.inf) if sinks is None else np.asarray(sinks, np.float64)
    top = np.maximum(logits.max(axis=2, initial=-np.inf), extra[:, None])
    top = np.where(np.isfinite(top), top, 0)
    weights = np.exp(logits - top[:, :, None])
    total = weights.sum(axis=2) + np.exp(extra[:, None] - top)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(total[:, :, None] > 0, weights / total[:, :, None], 0)
        lse = np.log(total) + top
    out = np.einsum("hnl,lhd->nhd", p, v)
    size = np.einsum("hnl,lhd->nhd", p, abs(v))
    row_noise = np.where(p > 0, noise, 0).max(axis=2, initial=0).T[:, :, None]
    return out, lse.T, 4 * (row_noise + U * (16 + length)) * size + 4 * U * abs(out)


def norm(x, kind="rms", weight=None, bias=None, residual=None, gate=None, eps=1e-6, weight_offset=0.0):
    """(out, x + residual, bound)."""
    x = x.astype(np.float64) + (0 if residual is None else residual.astype(np.float64))
    total, shift = x, 0
    if kind == "layer":
        shift = x.mean(axis=-1, keepdims=True)
    y = x - shift
    square = (y * y).sum(axis=-1, keepdims=True) if kind == "l2" else (y * y).mean(axis=-1, keepdims=True)
    inverse = 1 / np.sqrt(square + eps)
    out = y * inverse
    w = 1 if weight is None else weight.astype(np.float64) + weight_offset
    act = 1 if gate is None else gate / (1 + np.exp(-gate.astype(np.float64)))
    bound = U * (x.shape[-1] + 16) * (abs(x) + abs(x).mean(axis=-1, keepdims=True)) * inverse * abs(w) * abs(act)
    out = (out * w + (0 if bias is None else bias)) * act
    return out, total, bound + 8 * U * abs(out)


def inverse_frequencies(rotary_dim, theta=10000.0, scaling="none", factor=1.0):
    i = np.arange(rotary_dim // 2)
    if scaling == "ntk":
        theta = theta * factor ** (rotary_dim / (rotary_dim - 2))
    return theta ** (-2.0 * i / rotary_dim) / (factor if scaling == "linear" else 1)


def rope(x, positions, frequencies, style="neox"):
    """x [tokens, heads, d] with its first 2 len(frequencies) dims turned: (out, bound)."""
    half = len(frequencies)
    x = x.astype(np.float64)
    angle = positions.astype(np.float64)[:, None, None] * frequencies
    cos, sin = np.cos(angle), np.sin(angle)
    first = slice(0, half) if style == "neox" else slice(0, 2 * half, 2)
    second = slice(half, 2 * half) if style == "neox" else slice(1, 2 * half, 2)
    out, bound = x.copy(), 0 * x
    a, b = x[..., first], x[..., second]
    out[..., first], out[..., second] = a * cos - b * sin, a * sin + b * cos
    bound[..., first] = bound[..., second] = 4 * U * (abs(a) + abs(b))
    return out, bound


def glu(gate, up, kind="silu", alpha=1.702, limit=7.0):
    """(out, bound)."""
    g, u = gate.astype(np.float64), up.astype(np.float64)
    if kind == "silu":
        out = g / (1 + np.exp(-g)) * u
    elif kind == "gelu_tanh":
        out = 0.5 * g * (1 + np.tanh(np.sqrt(2 / np.pi) * (g + 0.044715 * g**3))) * u
    elif kind == "gelu_erf":
        from math import erf

        out = 0.5 * g * (1 + np.vectorize(erf)(g / np.sqrt(2))) * u
    else:
        g, u = np.minimum(g, limit), np.clip(u, -limit, limit)
        out = g / (1 + np.exp(-alpha * g)) * (u + 1)
    return out, 16 * U * (abs(g) + 1) * (abs(u) + 1)


def product(x, w, bias=0):
    """(out, bound)."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    return x @ w.T + bias, U * (x.shape[1] + 4) * (abs(x) @ abs(w).T) + 4 * U * abs(bias)


def blocks_q8_0(data):
    """[n, bytes] of q8_0 as values: per 32 an f16 scale and 32 bytes."""
    rows = data.reshape(data.shape[0], -1, 34)
    scale = rows[:, :, :2].copy().view(np.float16).astype(np.float64)
    return (scale * rows[:, :, 2:].view(np.int8)).reshape(data.shape[0], -1)


def e4m3(codes):
    """Values of bytes: sign, 4 bits of exponent (bias 7), 3 of mantissa; no infinities, NaN is 0x7f."""
    sign, exponent, mantissa = codes >> 7, (codes >> 3) & 15, codes & 7
    value = np.where(exponent == 0, mantissa / 8 * 2.0**-6, (1 + mantissa / 8) * 2.0 ** (exponent.astype(int) - 7))
    return np.where(sign == 1, -value, value)


def bf16_bits(x):
    """f32 to the bits of bf16, to the nearest, ties to even."""
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def bf16_values(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def close(got, want, bound):
    """Every element within its own bound; infinities must be the same ones."""
    got = np.asarray(got, np.float64)
    assert got.shape == want.shape
    same = got == want
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0, abs(got - want))
    worst = np.unravel_index(np.argmax(np.where(np.isnan(error), np.inf, error - bound)), error.shape) if error.size else ()
    assert error.size == 0 or (error <= bound).all(), f"at {worst}: {got[worst]} is not {want[worst]} within {np.broadcast_to(bound, error.shape)[worst]}"
