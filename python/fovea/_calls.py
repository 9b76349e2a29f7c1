# SPDX-License-Identifier: Apache-2.0
"""What the C interface does not say of its operations: which arguments come first, and the shape and type of what is
written. `a` gives the arguments of a call by name, tensors as views with .shape and .dtype. A rule without an answer (None)
needs the tensor or its shape from the caller."""

NOTHING = object()  # in place of a shape: such an output is not written here


class Call:
    """inputs: positional arguments, those that a call needs. Outputs by rule: `required` ones are always allocated where they
    are not given, others when they are asked for."""

    def __init__(self, inputs, required=(), *, mutates="", **outputs):
        self.inputs = inputs.split()
        self.outputs = list(outputs)
        self.required = [name for name in outputs if name in required]
        self.rules = outputs
        self.mutates = mutates.split()  # inputs that are written to: caches
        self.written = self.outputs + self.mutates


def like(name):
    def rule(a):
        if name not in a:
            return NOTHING, None
        tensor = getattr(a, name)
        return tensor.shape, tensor.dtype

    return rule


def _float(dtype):
    """The type of values made from rows of this type: its own, or f32 where it is no plain type."""
    return dtype if dtype in ("f32", "f16", "bf16") else "f32"


CALLS = {
    "attention": Call(
        "q kv",
        ("out",),
        out=lambda a: (a.q.shape[:-1] + (a.kv.d_v or a.kv.d_k,), None if a.q.dtype == "e4m3" else a.q.dtype),
        lse=lambda a: (a.q.shape[:-1], "f32"),
    ),
    "merge_states": Call("outs lses", ("out",), out=like("outs"), lse=like("lses")),
    "kv_append": Call("k v kv slot_mapping", ("q_out",), mutates="kv", q_out=like("q")),
    "kv_copy": Call("src dst copies", mutates="dst"),
    "rope": Call("x positions config", ("out",), out=like("x")),
    "norm": Call("x", ("out",), out=like("x"), residual_out=like("residual")),
    "glu": Call("gate up", ("out",), out=like("gate")),
    "matmul": Call("x w", ("out",), out=lambda a: ((a.x.shape[0], a.w.shape[0]), a.x.dtype)),
    "embed": Call("ids table", ("out",), out=lambda a: (a.ids.shape + a.table.shape[1:], _float(a.table.dtype))),
    "sample": Call(
        "logits",
        ("tokens",),
        tokens=lambda a: (a.logits.shape[:1], "i64"),
        logprobs=lambda a: (a.logits.shape[:1], "f32"),
        top_ids=lambda a: (None, "i64"),
        top_logprobs=lambda a: (a.top_ids.shape if "top_ids" in a else None, "f32"),
        probs=lambda a: (a.logits.shape, "f32"),
    ),
    "quantize": Call("x", ("out",), out=lambda a: (a.x.shape, None), scale=lambda a: (None, "f32")),
    "verify": Call(
        "target cu_nodes draft_tokens",
        ("accepted", "tokens"),
        accepted=lambda a: ((a.cu_nodes.shape[0] - 1,), a.draft_tokens.dtype),
        tokens=lambda a: (None, a.draft_tokens.dtype),
        nodes=lambda a: (None, a.draft_tokens.dtype),
    ),
}
