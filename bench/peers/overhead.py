# SPDX-License-Identifier: Apache-2.0
"""What a call costs the host: Fovea from Python and in C++ alone, PyTorch's SDPA beside it. A decode call of little work,
outputs given, queued without waiting; calls in turn, medians, microseconds."""
import time

import fovea
import timing

WANTED = 10  # us of Python, at most


def measure(torch, rounds=15, calls=400):
    batch, heads, kv_heads, d, length = 1, 8, 2, 64, 64
    on = dict(device="cuda", dtype=torch.bfloat16)
    q = torch.randn(batch, heads, d, **on)
    k, v = (torch.randn(batch, length, kv_heads, d, **on) for _ in "kv")
    lens = torch.full((batch,), length, device="cuda", dtype=torch.int32)
    cu = torch.arange(batch + 1, device="cuda", dtype=torch.int32)
    kv, out = fovea.Kv(k=k, v=v, kv_lens=lens), torch.empty_like(q)
    arguments = dict(cu_seqlens_q=cu, out=out, mask="causal", max_q_len=1)
    plan = fovea.plan("attention", q, kv, **arguments)
    q4, k4, v4 = q[:, :, None], k.transpose(1, 2).contiguous(), v.transpose(1, 2).contiguous()
    sdpa = torch.nn.functional.scaled_dot_product_attention

    def host(call):
        def sample():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(calls):
                call()
            took = (time.perf_counter() - start) / calls
            torch.cuda.synchronize()
            return took * 1e6

        return sample

    def in_cpp():
        torch.cuda.synchronize()
        took = plan._time(calls, (q, kv), arguments) * 1e6
        torch.cuda.synchronize()
        return took

    samplers = {
        "plan, C++ alone": in_cpp,
        "plan, from Python": host(lambda: plan(q, kv, **arguments)),
        "fovea.attention": host(lambda: fovea.attention(q, kv, **arguments)),
        "torch SDPA": host(lambda: sdpa(q4, k4, v4, enable_gqa=True)),
    }
    with torch.no_grad():
        timing.interleave(samplers, 2)
        taken = {name: round(timing.median(times), 2) for name, times in timing.interleave(samplers, rounds).items()}
    return {"microseconds": taken, "python_over_cpp": round(taken["plan, from Python"] - taken["plan, C++ alone"], 2), "wanted": WANTED}
