# SPDX-License-Identifier: Apache-2.0
"""Every operation as an operator of PyTorch, torch.ops.fovea.<name>, and as a function that torch.compile traces through.

An operator writes into tensors that it is given, which its schema declares, and returns nothing; so shapes need no
inference, and in-place use needs no form of its own. The functions here allocate the outputs as those of fovea do. Nested structs
are flat in the schema: the cache's page table is kv_page_table. Work goes to the current stream.

    import fovea.torch as ft
    kv = ft.Kv(k=k_cache, v=v_cache, page_table=table, kv_lens=lens)
    out = ft.attention(q, kv, cu_seqlens_q=cu, mask="causal")
"""
import enum

import torch

import fovea
from fovea import _core
from fovea._calls import CALLS, NOTHING
from fovea._frameworks import name_of

_STRUCTS = _core.structs()
_CACHE_TENSORS = ("k", "v", "k_scale", "v_scale", "k_rope")
_CACHE_DERIVED = ("heads", "d_k", "page_size", "pages", "d_rope", "rope_dtype")  # what those say
_PLAIN = [d.name.lower() for d in fovea.Dtype if d.value and _core.dtype_bytes(d.name.lower(), 1) > 0]
_TORCH_DTYPES = {name: getattr(torch, name_of(name)) for name in _PLAIN}
_DTYPES = {dtype: name for name, dtype in _TORCH_DTYPES.items()}
_TYPES = {"int": "int", "float": "float", "str": "str?", "tensor": "Tensor?", "tensors": "Tensor[]", "floats": "float[]?"}


_LISTS = {"attention_params"}  # whose structs are lists


class Kv:
    """A cache: the arguments of fovea.Kv, as plain attributes, so that torch.compile sees the tensors."""

    def __init__(self, **fields):
        self.fields = fields

    @property
    def d_k(self):
        rope = self.fields.get("k_rope")
        return self.fields["k"].shape[-1] + (0 if rope is None else rope.shape[-1])

    @property
    def d_v(self):
        v = self.fields.get("v")
        return self.fields.get("d_v", 0) if v is None else v.shape[-1]


class _View:
    """A tensor, or the last dims of one of blocks, as the rules of outputs see it."""

    def __init__(self, tensor, dtype=None):
        self.shape = tuple(tensor.shape)
        if dtype in _BLOCKS:
            elements, size = _BLOCKS[dtype]
            self.shape = (*self.shape[:-1], self.shape[-1] // size * elements)
        self.dtype = dtype or _DTYPES[tensor.dtype]


class _Arguments:
    def __init__(self, given):
        self.given = given

    def __contains__(self, name):
        return self.given.get(name) is not None

    def __getattr__(self, name):
        value = self.given[name]
        if isinstance(value, (list, tuple)):
            value = value[0]
        return _View(value, self.given.get(name + "_dtype")) if isinstance(value, torch.Tensor) else value


def _flat_fields(struct, prefix=""):
    """(flat name, type, default) of a struct's fields; structs inside follow with their name before them. Attention takes
    several caches: lists, with one value for each."""
    for name, kind, type_, default, doc in _STRUCTS[struct][1]:
        if struct == "kv" and name in _CACHE_TENSORS + _CACHE_DERIVED:
            continue
        if kind == "struct":
            for flat, inner, value in _flat_fields(type_, prefix + name + "_"):
                yield (flat, inner.removesuffix("?") + "?" * (inner == "Tensor?") + "[]?", "None") if struct in _LISTS else (flat, inner, value)
            continue
        if type_ and kind == "int":
            yield prefix + name, "str", f'"{getattr(fovea, type_)(default).name.lower()}"'
        elif kind == "int":
            yield prefix + name, "int[]" if isinstance(default, list) else "int", default
        elif kind in ("tensor", "str", "floats"):
            yield prefix + name, _TYPES[kind], "None"
            if "block type" in doc:
                yield prefix + name + "_dtype", "str?", "None"
        else:
            yield prefix + name, _TYPES[kind], default
    if struct == "kv":
        for name in _CACHE_TENSORS:
            yield prefix + name, "Tensor?", "None"


def _schema(name):
    call = CALLS[name]
    caches = [f"{cache}_{tensor}" for cache in call.mutates for tensor in _CACHE_TENSORS]
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    lead, rest = [], []
    for field, type_, default in _flat_fields(name + "_params"):
        if field in call.outputs or field in caches:
            type_ = f"Tensor({next(letters)}!)?"
        if field in call.inputs and "absent where" not in _doc(name, field):
            lead.append(f"{type_.removesuffix('?')} {field}")
        else:
            rest.append(f"{type_} {field}" + ("" if default is None else f"={default}"))
    lead.sort(key=lambda text: call.inputs.index(text.split()[-1]))
    return f"{name}({', '.join(lead + ['*'] + rest)}) -> ()"


def _doc(name, field):
    return next((row[4] for row in _STRUCTS[name + "_params"][1] if row[0] == field), "")


def _groups(name):
    """The nested structs among the arguments: {name: struct}."""
    return {field: type_ for field, kind, type_, _, _ in _STRUCTS[name + "_params"][1] if kind == "struct"}


_CLASSES = {"kv": fovea.Kv, "rope_config": fovea.RopeConfig, "sample_params": fovea.SampleParams}


def _implementation(name):
    """The operator on real tensors: structs are put together again, then it is the call of fovea."""
    call, groups, operation = CALLS[name], _groups(name), fovea._OPERATIONS[name]
    own, lists = {row[0] for row in _STRUCTS[name + "_params"][1]}, name + "_params" in _LISTS
    lead = [field for field in call.inputs if field not in groups and "absent where" not in _doc(name, field)]
    where = {}
    for flat, _, _ in _flat_fields(name + "_params"):
        group = next((g for g in groups if flat.startswith(g + "_") and flat not in own), None)
        where[flat] = (group, flat.removeprefix(group + "_") if group else flat)

    def run(*args, **kwargs):
        nested, fields = {}, {}
        for flat, value in [*zip(lead, args), *kwargs.items()]:
            group, field = where[flat]
            (fields if group is None else nested.setdefault(group, {}))[field] = value
        for field in [field for field in fields if field.endswith("_dtype") and field.removesuffix("_dtype") in fields]:
            base = field.removesuffix("_dtype")
            fields[base] = _core.Tensor(fields[base], fields.pop(field))
        for group, values in nested.items():
            make = _CLASSES[groups[group]]
            if lists:
                several = [dict(zip(values, segment)) for segment in zip(*values.values(), strict=True)]
                fields[group] = [make(**segment) for segment in several]
            else:
                fields[group] = make(**values)
        operation.run((), fields)

    return run


def _plain(value):
    return value.name.lower() if isinstance(value, enum.Enum) else value


def _fields_of(name, value, struct):
    if isinstance(value, Kv):
        value = value.fields
    elif not isinstance(value, dict):
        raise TypeError(f"{name}: must be a {'fovea.torch.Kv or a ' if struct == 'kv' else ''}dict of its fields")
    return {f"{name}_{field}": _plain(inner) for field, inner in value.items() if inner is not None}


def _lists_of(name, segments, struct, defaults):
    """One list for each field that a segment has; the others' values are defaults."""
    rows = [_fields_of(name, segment, struct) for segment in segments]
    return {key: [row.get(key, defaults.get(key)) for row in rows] for key in dict.fromkeys(key for row in rows for key in row)}


def _operator(name):
    return getattr(torch.ops.fovea, name).default


def _function(name):
    call, groups = CALLS[name], _groups(name)
    operator = _operator(name)
    defaults = {f"{group}_{row[0]}": row[3] for group, type_ in groups.items() for row in _STRUCTS[type_][1] if row[1] in ("int", "float")}

    def function(*args, **kwargs):
        given = {}
        for key, value in [*zip(call.inputs, args), *kwargs.items()]:
            if key in given:
                raise TypeError(f"{name}() got two values for {key!r}")
            if value is not None:
                given[key] = _plain(value)
        flat = {}
        for key, value in given.items():
            if key not in groups:
                if key not in call.outputs or isinstance(value, torch.Tensor):
                    flat[key] = value
            elif name + "_params" in _LISTS:
                flat.update(_lists_of(key, value if isinstance(value, (list, tuple)) else [value], groups[key], defaults))
            else:
                flat.update(_fields_of(key, value, groups[key]))
        device = next((t.device for t in _tensors(given[key] for key in call.inputs if key in given)), None)
        arguments, results = _Arguments(dict(given)), []
        for key, rule in call.rules.items():
            want = given.get(key, key in call.required)
            if want is False:
                continue
            if not isinstance(want, torch.Tensor):
                arguments.given.pop(key, None)
                shape, dtype = rule(arguments)
                if shape is NOTHING:
                    continue
                dtype = want if isinstance(want, str) else dtype
                shape = want if isinstance(want, tuple) else shape
                if shape is None or dtype is None:
                    raise TypeError(f"{key}: give the tensor, or its {'shape as a tuple' if shape is None else 'type'}")
                want = _empty(flat, key, shape, dtype, device)
                arguments.given[key] = flat[key] = want
            results.append(want)
        operator(**flat)
        return None if not results else results[0] if len(results) == 1 else tuple(results)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = getattr(fovea, name).__doc__ + f"\n\nOperator: fovea::{_schema(name)}"
    return function


def _empty(flat, key, shape, dtype, device):
    block = _BLOCKS.get(dtype)
    if block is None:
        return torch.empty(shape, dtype=_TORCH_DTYPES[dtype], device=device)
    flat[key + "_dtype"] = dtype
    return torch.empty((*shape[:-1], shape[-1] // block[0] * block[1]), dtype=torch.uint8, device=device)


def _tensors(values):
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, Kv):
            yield value.fields["k"]
        elif isinstance(value, dict):
            yield from _tensors(value.values())
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _block(dtype):
    """(elements, bytes) of a block."""
    elements = next((n for n in (32, 64, 128, 256) if _core.dtype_bytes(dtype, n) > 0), 0)
    return elements, _core.dtype_bytes(dtype, elements)


_BLOCKS = {d.name.lower(): _block(d.name.lower()) for d in fovea.Dtype if d.value and d.name.lower() not in _PLAIN}
_LIBRARY = torch.library.Library("fovea", "DEF")
for _name in CALLS:
    _LIBRARY.define(_schema(_name))
    for _key in ("CPU", "CUDA"):
        _LIBRARY.impl(_name, _implementation(_name), _key)
    torch.library.register_fake(f"fovea::{_name}", lambda *args, **kwargs: None, lib=_LIBRARY)
    globals()[_name] = _function(_name)
