# SPDX-License-Identifier: Apache-2.0
"""What is taken, what is refused, and with which words."""
import doctest
import gc
import inspect
import re
import sys
import threading

import numpy as np
import pytest

import fovea

X = np.arange(8, dtype=np.float32).reshape(2, 4)


@pytest.mark.parametrize("call, error, message", [
    (lambda: fovea.norm(), TypeError, "norm() misses the argument 'x'"),
    (lambda: fovea.norm(X, X), TypeError, "norm takes 1 positional arguments, but 2 were given"),
    (lambda: fovea.norm(X, x=X), TypeError, "norm() got two values for 'x'"),
    (lambda: fovea.norm(X, epsilon=1), TypeError, "norm() has no argument 'epsilon'"),
    (lambda: fovea.norm([1.0]), TypeError, "x of type <class 'list'> is no tensor"),
    (lambda: fovea.norm(X.astype(np.float64)), TypeError, "x has dtype float64: must be float32"),
    (lambda: fovea.norm(X.astype(bool)), TypeError, "x has dtype bool: must be float32"),
    (lambda: fovea.norm(X, kind="rmsnorm"), ValueError, "kind is 'rmsnorm': must be one of rms, layer, l2"),
    (lambda: fovea.norm(X, kind=17), ValueError, "kind is 17"),
    (lambda: fovea.norm(X, kind=1.5), TypeError, "kind is 1.5: must be an integer"),
    (lambda: fovea.norm(X, eps="small"), TypeError, "eps is 'small': must be a number"),
    (lambda: fovea.norm(X, weight=np.ones(3, np.float32)), ValueError, "weight.shape[0] is 3: must be 4"),
    (lambda: fovea.norm(X, weight=np.ones(4, np.int32)), TypeError, "weight is i32: must be one of f32, f16, bf16"),
    (lambda: fovea.norm(X, kind="l2", weight=X[0]), ValueError, "weight is given: the L2 norm has no weight"),
    (lambda: fovea.norm(X[:, ::2]), ValueError, "x.stride[1] is 2: must be 1"),
    (lambda: fovea.norm(np.ones((1,) * 6, np.float32)), ValueError, "x: dl.ndim is 6: must be 0 to 5"),
    (lambda: fovea.norm(X, out=np.broadcast_to(X[:1], (2, 4))), ValueError, "out is read-only"),
    (lambda: fovea.norm(X, out=np.empty((2, 5), np.float32)), ValueError, "out.shape is [2, 5]: must be [2, 4] (x)"),
    (lambda: fovea.norm(X, out="q9"), ValueError, "dtype is 'q9': must be one of f32, f16"),
    (lambda: fovea.norm(X, stream=8), ValueError, "exec.stream is given: must be null on the CPU"),
    (lambda: fovea.norm(X, stream="0"), TypeError, "stream is of type <class 'str'>"),
    (lambda: fovea.norm(X, early=True), ValueError, "FOVEA_EXEC_EARLY"),
    (lambda: fovea.norm(X, context="cpu"), TypeError, "context: must be a fovea.Context"),
    (lambda: fovea.rope(X[:, None], np.arange(2), 5), TypeError, "config is of type <class 'int'>: must be what C calls fovea_rope_config"),
    (lambda: fovea.rope(X[:, None], np.arange(2), {"tehta": 1}), TypeError, "fovea_rope_config has no field"),
    (lambda: fovea.RopeConfig(mrope_section=[1, 2, 3, 4, 5]), ValueError, "must be a list of at most 4 numbers"),
    (lambda: fovea.attention(X[:, None], fovea.Kv(k=X[:, None], v=X[:, None]), split_size=2**31), ValueError, "split_size is 2147483648: must be in"),
    (lambda: fovea.attention(X[:, None], fovea.Kv(k=X[:, None])), TypeError, "cu_seqlens_q is absent"),
    (lambda: fovea.attention(X[:, None], X), TypeError, "kv is of type <class 'numpy.ndarray'>: must be what C calls fovea_kv"),
    (lambda: fovea.merge_states([X[:, None]], []), ValueError, "lses has 0 tensors: must be as many as outs (1)"),
    (lambda: fovea.merge_states(X, X), TypeError, "outs: must be a list of tensors"),
    (lambda: fovea.quantize(X), TypeError, "out: give the tensor, or its type"),
    (lambda: fovea.verify(fovea.SampleParams(logits=X), np.array([0, 2]), np.array([0, 1])), TypeError, "tokens: give the tensor, or its shape"),
    (lambda: fovea.matmul(X, fovea.Tensor(np.zeros((2, 40), np.uint8), "q8_0")), ValueError, "base of uint8 cannot be read as q8_0"),
    (lambda: fovea.Tensor(X, "bf16"), ValueError, "base of float32 cannot be read as bf16"),
    (lambda: fovea.Tensor(), TypeError, "Tensor needs base, or shape and dtype"),
    (lambda: fovea.Kv(v=X[:, None]), ValueError, "k is missing"),
    (lambda: fovea.Kv(k=X), ValueError, "k.rank is 2: must be 4, [pages, tokens, heads, dims]"),
    (lambda: fovea.Kv(k=X[:, None], v=X[:1, None]), ValueError, "v: pages, tokens and heads must be those of k"),
    (lambda: fovea.Kv(k=X[:, None, ::2], v=X[:, None]), ValueError, "k.stride[2] is 2: must be 1"),
    (lambda: fovea.Kv(k=X[:, None], v=X[:, None], k_scale=X), ValueError, "k_scale.rank is 2"),
    (lambda: fovea.Context("gpu"), ValueError, "device_type is 'gpu': must be one of cpu, cuda, metal"),
    (lambda: fovea.Context("metal"), NotImplementedError, "this build has the CPU"),
    (lambda: fovea.Context("cpu", threads=-3), ValueError, "threads is -3"),
    (lambda: fovea.Context("cpu", isa="AVX9"), ValueError, "AVX9"),
    (lambda: fovea.plan("softmax", X), ValueError, "operation is 'softmax': must be one of attention"),
    (lambda: fovea.Tensor(shape=(1,), dtype="f32", device="tpu"), ValueError, "device is 'tpu': must be cpu, cuda or cuda:N"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_refused(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_memory_of_another_device_is_refused_before_it_is_touched():
    away = lambda shape, dtype: fovea.Tensor(shape=shape, dtype=dtype, device="cuda:1")
    with pytest.raises(ValueError, match=re.escape("weight.device is cuda:1: the context is on cpu")):
        fovea.norm(X, weight=away((4,), "f32"))
    keys = np.zeros((4, 16, 1, 8), np.float32)
    with pytest.raises(ValueError, match=re.escape("v is on cuda:1: must be on cpu (k)")):
        fovea.Kv(k=keys, v=away(keys.shape, "f32"))
    cuda = fovea.Kv(k=away(keys.shape, "f32"), v=away(keys.shape, "f32"), kv_lens=np.array([3], np.int32))
    q = np.zeros((1, 1, 1, 8), np.float32)
    for kv in (cuda, [cuda]):
        with pytest.raises(ValueError, match=re.escape("kv.k is on cuda:1: must be on cpu (q)")):
            fovea.attention(q, kv)


@pytest.mark.parametrize("versioned", [True, False])
def test_no_exchange_asks_a_device_to_wait(versioned):
    calls = []

    class Producer:
        """Says that it is on CUDA; its memory is the host's, so that it can be read here."""

        def __dlpack_device__(self):
            return 2, 0

        def __dlpack__(self, **arguments):
            calls.append(arguments)
            if not versioned and "max_version" in arguments:
                raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
            return X.__dlpack__()

    out = np.empty_like(X)
    with pytest.raises(TypeError, match="out: must be given, for tensors of this type are not known to allocate"):
        fovea.norm(Producer())
    calls.clear()
    assert (fovea.norm(Producer(), out=out) == fovea.norm(X)).all()
    assert all(arguments["stream"] == -1 for arguments in calls)
    assert [("max_version" in arguments) for arguments in calls] == ([True] if versioned else [True, False])


def test_no_memory_is_refused_at_run():
    with pytest.raises(ValueError, match="weight"):
        fovea.norm(X, weight=fovea.Tensor(shape=(4,), dtype="f32"))


def test_a_cache_that_cannot_be_written_to():
    cache = np.zeros((2, 4, 1, 8), np.float32)
    cache.setflags(write=False)
    k = np.ones((1, 1, 8), np.float32)
    kv = fovea.Kv(k=cache, v=cache)
    with pytest.raises(TypeError, match=re.escape("kv.k cannot be written to: it is read-only")):
        fovea.kv_append(k, k, kv, np.array([3]))
    with pytest.raises(TypeError, match=re.escape("dst.k cannot be written to")):
        fovea.kv_copy(kv, kv, np.array([[0, 1]]))
    fovea.attention(k, fovea.Kv(k=cache, v=cache, kv_lens=np.array([1, 2])), cu_seqlens_q=np.array([0, 0, 1]))


def test_nothing_but_the_output_is_written():
    out = np.full((2, 8), 7, np.float32)
    fovea.norm(X, out=out[:, 4:])
    assert (out[:, :4] == 7).all() and not (out[:, 4:] == 7).any()


def test_every_field_of_c_is_an_argument():
    structs = fovea._core.structs()
    for name in fovea._core.operations():
        doc = getattr(fovea, name).__doc__
        for field, *_ in structs[name + "_params"][1]:
            assert f"\n    {field}" in doc, f"{name}: {field}"


def test_defaults_are_those_of_c():
    config = fovea.RopeConfig()
    assert (config.theta, config.factor, config.beta_fast, config.yarn_truncate) == (10000.0, 1.0, 32.0, 1)
    assert fovea.SampleParams().top_p == 1.0
    assert "\n    eps = 1e-06" in fovea.norm.__doc__ and "\n    kind = 'rms'" in fovea.norm.__doc__


def test_examples_of_docstrings():
    result = doctest.testmod(fovea, extraglobs={"np": np, "fovea": fovea})
    assert result.attempted > 10 and result.failed == 0


def test_stub_is_python():
    path = inspect.getsourcefile(fovea).replace(".py", ".pyi")
    scope = compile(open(path).read(), path, "exec").co_names
    assert set(fovea._core.operations()) <= set(scope)
    assert set(fovea._core.enums()) <= set(scope)


def test_attributes_of_a_cache():
    cache = np.zeros((8, 16, 2, 64), np.float32)
    kv = fovea.Kv(k=cache, v=cache, max_len=100)
    assert kv.k is cache and kv.v is cache and kv.k_scale is None and kv.max_len == 100
    table = np.zeros((1, 2), np.int32)
    kv.page_table = table
    assert kv.page_table is table
    kv.k = other = np.zeros((8, 16, 2, 32), np.float32)
    assert kv.k is other and kv.d_k == 32
    with pytest.raises(ValueError, match="must be those of k"):
        kv.v = other[:3]
    assert kv.v is cache and kv.pages == 8
    with pytest.raises(AttributeError, match="no field 'keys'"):
        kv.keys
    with pytest.raises(ValueError, match="cannot become None"):
        kv.page_table = None


def test_nothing_leaks():
    weight, positions = np.ones(4, np.float32), np.arange(2)
    config = fovea.RopeConfig()
    def work():
        fovea.norm(X, weight=weight)
        fovea.rope(X[:, None], positions, config)
        fovea.plan("norm", X)(X)
        with pytest.raises(ValueError):
            fovea.norm(X, weight=weight[:2])
    work()
    gc.collect()
    objects = (weight, positions, config, X)
    before = [sys.getrefcount(o) for o in objects]
    for _ in range(20):
        work()
    gc.collect()
    assert [sys.getrefcount(o) for o in objects] == before


def test_threads_have_their_own_errors():
    faults = []

    def work(size):
        for _ in range(200):
            try:
                fovea.norm(X, weight=np.ones(size, np.float32))
                faults.append(size)
            except ValueError as error:
                if f"weight.shape[0] is {size}:" not in str(error):
                    faults.append(str(error))

    threads = [threading.Thread(target=work, args=(size,)) for size in (3, 5, 6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not faults


def test_contexts():
    one = fovea.Context("cpu", threads=1)
    assert one.device == "cpu" and one.info()["threads"] == 1 and one.kernels() == ""
    assert (fovea.norm(X, context=one) == fovea.norm(X)).all()
    before = fovea.default_context()
    assert one.set_default() is one and fovea.default_context() is one
    before.set_default()


def test_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = X.astype(ml_dtypes.bfloat16)
    out = fovea.norm(x)
    assert out.dtype == ml_dtypes.bfloat16
    assert (out == fovea.norm(x.astype(np.float32)).astype(ml_dtypes.bfloat16)).all()


def test_jax():
    jax = pytest.importorskip("jax")
    x = jax.numpy.asarray(X)
    out = fovea.norm(x)
    assert isinstance(out, jax.Array) and (np.asarray(out) == fovea.norm(X)).all()
    with pytest.raises(TypeError, match="out: arrays of this type are immutable"):
        fovea.norm(x, out=x)
    half = jax.numpy.ones((2, 1, 8), "bfloat16")
    kv = fovea.Kv(k=half, v=half, cu_seqlens_kv=jax.numpy.array([0, 2]))
    out, lse = fovea.attention(half, kv, cu_seqlens_q=jax.numpy.array([0, 2]), lse=True)
    assert out.dtype == half.dtype and isinstance(lse, jax.Array) and (out == 1).all()
    with pytest.raises(TypeError, match="kv.k cannot be written to: arrays of this type are immutable"):
        fovea.kv_append(half, half, kv, jax.numpy.array([0, 1]))
    with pytest.raises(TypeError, match="x of type .* is no tensor"):
        jax.jit(fovea.norm)(x)
