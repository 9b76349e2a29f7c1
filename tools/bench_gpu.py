#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times attention, merge_states and kv_append on the CUDA card of this machine and prints a Markdown table.

    tools/bench_gpu.py build-release/bin/fovea [--json FILE] [--only WORDS] [-- OPTIONS OF fovea bench]

Each row is one `fovea bench OP --device cuda`, which measures the card's copy bandwidth and bf16 product beside it. Where
PyTorch is installed, its FlashAttention-2 backend is timed on the same prefill shapes, Fovea's process before and after it
in turn, and the ratio of the speeds is printed. Exit status: 0 all rows ran, 1 some did not, 2 no card.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys

TYPES = "--q-type bf16 --kv bf16"


def prefill_rows():
    for length in (1024, 2048, 4096, 8192, 16384):
        batch = 16384 // length
        for paged in (0, 16):
            yield {"name": f"prefill d128 causal {batch} x {length}, page {paged}", "op": "attention", "torch": not paged,
                   "shape": (batch, length, 16, 16, 128),
                   "options": f"--batch {batch} --q-len {length} --kv-len {length} --heads 16 --kv-heads 16 --head-dim 128 "
                              f"--page-size {paged} {TYPES}"}
    yield {"name": "chunked prefill d128 2048 of 32768, 32/8", "op": "attention",
           "options": f"--batch 1 --q-len 2048 --kv-len 32768 --page-size 16 {TYPES}"}


def decode_rows():
    for batch, length in ((64, 4096), (16, 8192), (1, 8192), (1, 131072), (256, 1024)):
        for paged in (0, 16):
            yield {"name": f"decode d128 32/8 {batch} x {length}, page {paged}", "op": "attention",
                   "options": f"--batch {batch} --kv-len {length} --page-size {paged} {TYPES}"}
    yield {"name": "decode d128 32/8 64 x 4096, fp8, page 16", "op": "attention",
           "options": "--batch 64 --kv-len 4096 --q-type bf16 --kv fp8"}
    yield {"name": "decode d128 32/8 1 x 1024, graph of 100", "op": "attention",
           "options": f"--batch 1 --kv-len 1024 {TYPES} --graph 100"}


def other_rows():
    yield {"name": "merge_states 4 parts, 8192 x 32 x 128", "op": "merge_states", "options": "--batch 8192 --parts 4 --type bf16"}
    yield {"name": "merge_states 2 parts, 64 x 32 x 128, graph of 100", "op": "merge_states",
           "options": "--batch 64 --parts 2 --type bf16 --graph 100"}
    for kv in ("bf16", "fp8"):
        yield {"name": f"kv_append 8192 tokens, rope, {kv}", "op": "kv_append",
               "options": f"--batch 1 --q-len 8192 --kv-len 8192 --rope --type bf16 --kv {kv}"}
    yield {"name": "kv_append 64 tokens, rope, bf16, graph of 100", "op": "kv_append",
           "options": "--batch 64 --q-len 1 --kv-len 4096 --rope --type bf16 --kv bf16 --graph 100"}


def fovea(program, row, more):
    """The report of one row, or the line in which the command refused it."""
    command = [program, "bench", row["op"], "--device", "cuda", "--json", *row["options"].split(), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (json.loads(done.stdout), "") if done.returncode == 0 else (None, done.stderr.strip())


def torch_seconds(shape):
    """The median time of PyTorch's FlashAttention-2 on rotating inputs, or None."""
    try:
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel
    except ImportError:
        return None
    batch, length, heads, kv_heads, dim = shape
    one = lambda n: torch.randn(batch, length, n, dim, device="cuda", dtype=torch.bfloat16).transpose(1, 2)
    sets = [(one(heads), one(kv_heads), one(kv_heads)) for _ in range(3)]
    times = []
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        call = lambda i: torch.nn.functional.scaled_dot_product_attention(*sets[i % 3], is_causal=True)
        for i in range(20):
            call(i)
        for _ in range(21):
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            for i in range(3):
                call(i)
            last.record()
            last.synchronize()
            times.append(first.elapsed_time(last) / 3e3)
    del sets
    torch.cuda.empty_cache()
    return statistics.median(times)


def cells(row, report):
    seconds = report["seconds"]["median"]
    roof = report["roof"]
    product = roof["percent_of_bf16"]
    tflops = f"{report['gflop_per_s'] / 1e3:.0f}" if row["op"] == "attention" else ""
    return [row["name"], f"{seconds * 1e6:.1f}", f"{report['gb_per_s']:.0f}", f"{roof['percent_of_copy']:.1f}", tflops,
            f"{product:.1f}" if product is not None and tflops else ""]


def measure(program, row, more):
    report, problem = fovea(program, row, more)
    if report is None or not row.get("torch"):
        return report, problem
    torch = torch_seconds(row["shape"])
    if torch is not None:
        again, problem = fovea(program, row, more)
        if again is None:
            return None, problem
        report["torch_flash_seconds"] = torch
        report["again_seconds"] = again["seconds"]
        own = (report["seconds"]["median"] + again["seconds"]["median"]) / 2
        report["speed_over_torch_flash"] = torch / own
    return report, problem


def main():
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path, help="write every report, one a line")
    parser.add_argument("--only", default="", help="rows whose name holds this regular expression")
    args = parser.parse_args(sys.argv[1:split])
    more = sys.argv[split + 1:]
    rows = [row for rows in (prefill_rows(), decode_rows(), other_rows()) for row in rows if re.search(args.only, row["name"])]
    print("| case | us | GB/s | % of copy | TFLOP/s | % of bf16 product | speed over FlashAttention-2 |")
    print("|---|---|---|---|---|---|---|", flush=True)
    reports, refused = [], []
    for row in rows:
        report, problem = measure(str(args.program), row, more)
        if report is None:
            refused.append(f"{row['name']}: {problem}")
            if "CUDA driver" in problem:
                print(problem, file=sys.stderr)
                return 2
            continue
        ratio = report.get("speed_over_torch_flash")
        print("| " + " | ".join([*cells(row, report), f"{ratio:.2f}" if ratio else ""]) + " |", flush=True)
        reports.append({"case": row["name"], **report})
        if args.json:
            args.json.write_text("".join(json.dumps(r) + "\n" for r in reports), encoding="utf-8")
    if reports:
        roofs = [r["roof"] for r in reports]
        product = [r["bf16_gflop_per_s"] for r in roofs if r["bf16_gflop_per_s"]]
        print(f"\n{reports[0]['machine']}: copy {statistics.median(r['copy_gb_per_s'] for r in roofs):.0f} GB/s, bf16 product "
              + (f"{statistics.median(product) / 1e3:.0f} TFLOP/s" if product else "not measured: " + roofs[0]["bf16"]))
    for line in refused:
        print(f"not run: {line}")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
