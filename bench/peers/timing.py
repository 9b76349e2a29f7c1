# SPDX-License-Identifier: Apache-2.0
"""How long calls take: callers in turn, A B A B, operands that rotate over more memory than a cache holds, medians."""
import math
import time


def median(values):
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def number_of_sets(bytes_of_a_set, cache_bytes, most=64):
    """Sets of operands, so that all of them are at least twice the cache; two at least."""
    return max(2, min(most, math.ceil(2 * cache_bytes / max(bytes_of_a_set, 1))))


def number_of_calls(seconds_of_a_call, sets, least_seconds):
    """Calls of a sample: whole turns through the sets, as many as take least_seconds."""
    return sets * max(1, math.ceil(least_seconds / max(seconds_of_a_call * sets, 1e-9)))


def interleave(samplers, rounds):
    """samplers: name -> function that takes one sample. Every round takes one of each, in turn: name -> samples."""
    taken = {name: [] for name in samplers}
    for _ in range(rounds):
        for name, sample in samplers.items():
            taken[name].append(sample())
    return taken


class CpuTimer:
    """calls: one function for each set of operands."""

    def __init__(self, least_seconds=0.02):
        self.least_seconds = least_seconds

    def sampler(self, calls):
        start = time.perf_counter()
        for call in calls[:2]:
            call()
        count = number_of_calls((time.perf_counter() - start) / 2, len(calls), self.least_seconds)

        def sample():
            start = time.perf_counter()
            for i in range(count):
                calls[i % len(calls)]()
            return (time.perf_counter() - start) / count

        return sample, "calls"


class CudaTimer:
    """Samples are replays of a captured graph, timed by events, so that the host's part does not count. Calls that cannot be
    captured are queued one by one."""

    def __init__(self, torch, least_seconds=0.002):
        self.torch, self.least_seconds = torch, least_seconds

    def seconds(self, run):
        torch = self.torch
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3

    def sampler(self, calls):
        torch = self.torch

        def turn(count=len(calls)):
            for i in range(count):
                calls[i % len(calls)]()

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            turn()
            estimate = min(self.seconds(turn) for _ in range(2)) / len(calls)
        torch.cuda.synchronize()
        count = number_of_calls(estimate, len(calls), self.least_seconds)
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local"):
                turn(count)
            run, how = graph.replay, "graph"
        except RuntimeError as error:
            torch.cuda.synchronize()
            run, how = (lambda: turn(count)), f"calls ({str(error).splitlines()[0][:80]})"
        run()
        torch.cuda.synchronize()
        return (lambda: self.seconds(run) / count), how
