# SPDX-License-Identifier: Apache-2.0
"""Tensors for the outputs that a call was not given, by the rules of _calls.py."""
from fovea import _core
from fovea._calls import NOTHING


class Arguments:
    """The arguments of a call by name: views of tensors, caches as they are."""

    def __init__(self, given):
        self.given = given

    def __contains__(self, name):
        return name in self.given

    def __getattr__(self, name):
        value = self.given[name]
        if isinstance(value, (list, tuple)):
            value = value[0]
        if not isinstance(value, (_core.Record, _core.Tensor)):
            value = _core.Tensor(value)
        setattr(self, name, value)
        return value


def make(call, given, wants, memory, framework, place, stream):
    """{name: tensor} of the outputs that `given` has not. `wants` holds what the caller said in place of a tensor: True, a
    type, a shape. Without `memory` they have none: for planning."""
    arguments, made = Arguments(given), {}
    for name, rule in call.rules.items():
        want = wants.get(name, name in call.required)
        if name in given or want is False:
            continue
        shape, dtype = rule(arguments)
        if shape is NOTHING:
            continue
        if isinstance(want, str):
            dtype = want
        elif want is not True:
            shape = want
        if dtype is None:
            raise TypeError(f"{name}: give the tensor, or its type, for example {name}='bf16'")
        if shape is None:
            raise TypeError(f"{name}: give the tensor, or its shape as a tuple")
        if not memory:
            device = "cpu" if place[0] == "cpu" else f"{place[0]}:{place[1]}"
            made[name] = _core.Tensor(shape=shape, dtype=dtype, device=device)
        elif framework is None:
            raise TypeError(f"{name}: must be given, for tensors of this type are not known to allocate")
        else:
            made[name] = framework.empty(shape, dtype, place, stream)
        given[name] = made[name]
    return made
