# SPDX-License-Identifier: Apache-2.0
"""The shapes, what they cost at least, and the tensors that every adapter reads."""
import dataclasses

PAGE = 16


class Skip(Exception):
    """Why an adapter does not run a case."""


@dataclasses.dataclass(frozen=True)
class Case:
    kind: str  # "prefill": causal, as many queries as keys; "decode": one query of each sequence
    batch: int
    length: int  # keys of each sequence
    heads: int
    kv_heads: int
    d: int
    dtype: str = "bf16"

    @property
    def name(self):
        return f"{self.kind} d{self.d} {self.heads}/{self.kv_heads} {self.batch} x {self.length} {self.dtype}"

    @property
    def queries(self):
        return self.length if self.kind == "prefill" else 1

    @property
    def flops(self):
        pairs = self.length * (self.length + 1) // 2 if self.kind == "prefill" else self.length
        return 4 * self.batch * self.heads * self.d * pairs

    @property
    def bytes(self):
        size = 4 if self.dtype == "f32" else 2
        return 2 * self.batch * self.d * size * (self.queries * self.heads + self.length * self.kv_heads)


def cuda_cases():
    for d in (64, 128, 256):
        for length in (1024, 2048, 4096, 8192, 16384):
            yield Case("prefill", 16384 // length, length, 2048 // d, 2048 // d, d)
    for batch in (1, 16, 64, 256):
        for length in (1024, 4096, 16384, 65536, 131072):
            if batch * length <= 2**21:  # 8 GB of keys and values
                yield Case("decode", batch, length, 32, 8, 128)


def cpu_cases():
    for dtype in ("f32", "bf16"):
        for d in (64, 128):
            for length in (512, 1024, 2048):
                yield Case("prefill", 1, length, 2048 // d, 512 // d, d, dtype)
        for batch, length in ((1, 1024), (1, 4096), (1, 16384), (8, 1024), (8, 4096)):
            yield Case("decode", batch, length, 32, 8, 128, dtype)


class Set:
    """One set of operands. q, out [tokens, heads, d]; k, v [batch, length, kv_heads, d]."""

    def __init__(self, torch, case, device, table, scattered):
        kind = {"f32": torch.float32, "bf16": torch.bfloat16}[case.dtype]
        self.q = torch.randn(case.batch * case.queries, case.heads, case.d, device=device, dtype=kind)
        shape = (case.batch, case.length, case.kv_heads, case.d)
        self.k, self.v = (torch.randn(shape, device=device, dtype=kind) for _ in "kv")
        pages = (-1, PAGE, case.kv_heads, case.d)
        # The same keys in pages of 16 tokens in random order. One query sees all keys of its sequence, in whatever order, so
        # that pages of decode are the same memory; of prefill they are a copy.
        self.k_pages, self.v_pages = self.k.view(pages), self.v.view(pages)
        if scattered:
            order = table.flatten().argsort()
            self.k_pages, self.v_pages = self.k_pages[order], self.v_pages[order]

    def queries4(self, case):
        return self.q.view(case.batch, case.queries, case.heads, case.d)


class Problem:
    """sets: of operands; table [batch, pages], lens [batch], cu_q, cu_k [batch + 1], i32 on the device and, _host, on the host."""

    def __init__(self, torch, case, device, sets, seed=1):
        torch.manual_seed(seed)
        self.torch, self.case, self.device = torch, case, device
        pages = case.length // PAGE
        first = torch.arange(case.batch)[:, None] * pages
        if case.kind == "prefill":
            table = torch.randperm(case.batch * pages).view(case.batch, pages)
        else:
            table = first + torch.stack([torch.randperm(pages) for _ in range(case.batch)])
        on = dict(device=device, dtype=torch.int32)
        self.table = table.to(**on)
        self.lens = torch.full((case.batch,), case.length, **on)
        self.cu_q_host = torch.arange(case.batch + 1, dtype=torch.int32) * case.queries
        self.cu_k_host = torch.arange(case.batch + 1, dtype=torch.int32) * case.length
        self.cu_q, self.cu_k = self.cu_q_host.to(device), self.cu_k_host.to(device)
        self.sets = [Set(torch, case, device, self.table, case.kind == "prefill") for _ in range(sets)]


def worst_row_error(torch, out, want):
    """The greatest |out - want| / |want| of a row of d values, Euclidean; infinite where something is not finite."""
    out, want = out.reshape(want.shape).float(), want.float()
    error = ((out - want).norm(dim=-1) / want.norm(dim=-1).clamp(min=1e-12)).max().item()
    return error if error == error else float("inf")


# Two right kernels differ by some roundings of 16 bits (2^-9 each); a key missed or a row misplaced is far above.
BOUNDS = {"bf16": 2.0**-6, "f32": 2.0**-12}
