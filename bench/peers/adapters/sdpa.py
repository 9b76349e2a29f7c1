# SPDX-License-Identifier: Apache-2.0
"""PyTorch's scaled_dot_product_attention, one backend at a time. It allocates its output; in a captured graph that costs nothing."""
from cases import Skip

MATRIX_BYTES = 4 * 2**30


class Sdpa:
    def __init__(self, name, backend, devices):
        self.name, self.backend, self.devices = name, backend, devices

    def missing(self, device):
        return None if device in self.devices else f"not on {device}"

    def prepare(self, problem):
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        case = problem.case
        if self.backend == "MATH":
            size = 2 * case.batch * case.heads * max(case.queries * case.length, 2 * case.length * case.d)
            if size > MATRIX_BYTES:
                raise Skip(f"its matrices have {size / 2**30:.0f} GiB")
        backend = getattr(SDPBackend, self.backend) if self.backend else None
        operands = [tuple(x.transpose(1, 2) for x in (s.queries4(case), s.k, s.v)) for s in problem.sets]
        run = torch.nn.functional.scaled_dot_product_attention
        options = dict(is_causal=case.kind == "prefill", enable_gqa=case.heads != case.kv_heads)

        def call(i):
            with torch.no_grad():
                if backend is None:
                    return run(*operands[i], **options).transpose(1, 2)
                with sdpa_kernel(backend):
                    return run(*operands[i], **options).transpose(1, 2)

        return [lambda i=i: call(i) for i in range(len(operands))], self.backend or "PyTorch's own choice"


ADAPTERS = [
    Sdpa("PyTorch, cuDNN", "CUDNN_ATTENTION", ("cuda",)),
    Sdpa("PyTorch, FlashAttention-2", "FLASH_ATTENTION", ("cuda",)),
    Sdpa("PyTorch, math", "MATH", ("cuda",)),
    Sdpa("PyTorch", None, ("cpu",)),
]
