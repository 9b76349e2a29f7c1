# SPDX-License-Identifier: Apache-2.0
"""Fovea: kernels for LLM inference, on tensors of NumPy, PyTorch, JAX and CuPy.

Every operation is a function with the names and defaults of the C++ interface. Tensors are taken as they are, by DLPack;
outputs are allocated by the framework of the first tensor, or given. On CUDA, work goes to the framework's current stream.

>>> import numpy as np, fovea
>>> x = np.array([[3.0, 4.0]], dtype=np.float32)
>>> fovea.norm(x, kind="l2", eps=0)
array([[0.6, 0.8]], dtype=float32)
"""
import enum as _enum

from fovea import _core
from fovea._calls import CALLS as _CALLS
from fovea._core import PagePool, Plan, Tensor

__version__ = _core.version()

# Enums: fovea.Mask.CAUSAL. Every argument that takes one takes its name in small letters as well.
for _name, _values in _core.enums().items():
    globals()[_name] = _enum.IntEnum(_name, {key.upper(): value for key, value in _values.items()}, module=__name__)
Dtype = globals()["Dtype"]


def _fields_text(fields):
    for name, kind, type_, default, doc in fields:
        if type_ and kind == "int":
            default = repr(globals()[type_](default).name.lower())
        default = "" if default is None else f" = {default}"
        yield f"    {name}{default}" + (f": {doc}" if doc else "")


def _struct(name, title):
    doc, fields = _core.structs()[name]

    def __init__(self, **fields):
        _core.Record.__init__(self, name, fields)

    return type(title, (_core.Record,), {
        "__init__": __init__, "__module__": __name__, "__doc__": "\n".join([doc, "", "Fields", *_fields_text(fields)])
    })


KvStream = _struct("kv_stream", "KvStream")
KvSide = _struct("kv_side", "KvSide")
Kv = _struct("kv", "Kv")
RopeConfig = _struct("rope_config", "RopeConfig")
SampleParams = _struct("sample_params", "SampleParams")
Kv.__doc__ = """A KV cache: the tensors of its pages, and which of them a sequence has.

    k, v            [pages, tokens, heads, dims] of any strides, the last is 1; [tokens, heads, dims] for ragged keys
    k_scale, v_scale  of fp8: one number, [heads], [pages, tokens, heads] or [pages, tokens, heads, groups]
    k_rope          the last dims of K in a tensor of their own, of k's pages, tokens and heads

Codecs, head dims, pages and page_size follow from these; a field that is given by name stays.

>>> cache = np.zeros((8, 16, 2, 64), np.float32)
>>> kv = fovea.Kv(k=cache, v=cache, page_table=np.array([[3, 1]], np.int32), kv_lens=np.array([20], np.int32))
>>> kv.heads, kv.d_k, kv.pages, kv.page_size
(2, 64, 8, 16)

""" + Kv.__doc__


class Context(_core.Context):
    """A device: its kernels and threads. Calls use the one that is their device's default, unless `context` is given.

    device                 "cpu", "cuda" or "cuda:1"
    threads, isa           CPU
    compile                CUDA: "never" (default), "allowed" or "warm": whether kernels that neither the bundle nor the cache
                           holds may be compiled
    bundle, cache_dir, nvrtc, arch, compile_threads   CUDA: see fovea_context_params

    >>> fovea.Context("cpu", threads=1).info()["threads"]
    1
    """

    def __init__(self, device="cpu", **params):
        kind, _, index = device.partition(":")
        if kind == "cuda" and "nvrtc" not in params:
            params["nvrtc"] = _nvrtc_folder()
        super().__init__({"device_type": kind, "device_id": int(index or 0), **params})

    def set_default(self):
        """Makes this context the one of calls on its device; returns it."""
        _core.set_default_context(self)
        return self


def _nvrtc_folder():
    """The folder of Python packages that has the one with NVRTC, or None."""
    import importlib.util
    import pathlib

    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations or []) if spec else []:
        if any(pathlib.Path(place).glob("*/lib/libnvrtc.so.*")):
            return str(pathlib.Path(place).parent)
    return None


class SupportAnswer(str):
    """Whether a call can run: true or false; as text, the reason why not, or what it takes."""

    def __new__(cls, answer, reason):
        self = super().__new__(cls, reason)
        self.answer = globals()["Support"](answer)
        return self

    def __bool__(self):
        return self.answer != 0

    def __repr__(self):
        return f"SupportAnswer({self.answer.name}{', ' + str.__repr__(self) if len(self) else ''})"


_OPERATIONS = {}


def _operation(name, text):
    call = _CALLS[name]
    operation = _OPERATIONS[name] = _core.Operation(name, call)
    run = operation.run

    def function(*args, **kwargs):
        return run(args, kwargs)

    doc, fields = _core.structs()[name + "_params"]
    lead = ", ".join(call.inputs)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = "\n".join([
        f"{name}({lead}, *, ..): {text}.", "", doc, "", "Arguments and their defaults", *_fields_text(fields),
        "    stream: CUDA, in place of the framework's current one", "    context, check, early, status: docs/python.md", "",
        f"Returns {', '.join(call.outputs) or 'None'}" + (" (what is asked for with True, a type or a shape, or given)"
                                                         if len(call.outputs) > len(call.required) else "") + ".",
    ])
    return function


for _name, _text in _core.operations().items():
    globals()[_name] = _operation(_name, _text)


def _find(operation):
    name = getattr(operation, "__name__", operation)
    if name not in _OPERATIONS:
        raise ValueError(f"operation is {operation!r}: must be one of {', '.join(_OPERATIONS)}")
    return _OPERATIONS[name]


def supports(operation, *args, **kwargs):
    """Whether a call with these arguments can run, and why not. Tensors may be without memory: Tensor(shape=.., dtype=..).

    >>> x = fovea.Tensor(shape=(4, 64), dtype="bf16")
    >>> bool(fovea.supports("norm", x, kind="rms"))
    True
    >>> fovea.supports(fovea.norm, x, kind="l2", weight=fovea.Tensor(shape=(64,), dtype="f32"))
    SupportAnswer(NO, 'weight is given: the L2 norm has no weight')
    """
    return SupportAnswer(*_find(operation).supports(args, kwargs))


def plan(operation, *args, **kwargs):
    """A plan of a call: plan(..) then runs with the same arguments and options, without planning; tensors are given anew,
    options need not be. Tensors here may be without memory. A plan serves as many tokens, rows and requests, or fewer.

    >>> plan = fovea.plan("norm", fovea.Tensor(shape=(4, 2), dtype="f32"), kind="l2", eps=0)
    >>> plan(np.array([[3, 4]], np.float32))
    array([[0.6, 0.8]], dtype=float32)
    """
    return _find(operation).plan(args, kwargs)


def explain(operation, *args, **kwargs):
    """Which kernel a call would take, and why, as text."""
    return plan(operation, *args, **kwargs).explain()


def default_context(device="cpu"):
    """The context of calls on the device; made if there is none."""
    return _core.default_context(device)
