#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests on the CUDA card of this machine and writes results/gpu-conformance-<card>.json.

The programs `test_conformance` and `test_cuda` may be built here or brought along: they need the driver, and NVRTC for
what the bundle lacks. The suite needs about a thousand kernels, most of them once, so the step `kernels` first plans every
case in one process for each core, which compiles its share into the cache. Then the suite is divided over processes, each
writes its counts, and they are joined here.
Exit status: 0 all passed, 1 something failed, 2 no card. `--age` only says, for `make test`, whether the results in the
tree were made from its sources; it never fails, since most changes are made on machines without a card.
"""
import argparse
import collections
import concurrent.futures
import ctypes
import datetime
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from source_hash import ROOT, source_hash

# What compute-sanitizer sees: every kind of mask, layout, option and edge once, in seconds instead of hours.
REDUCED = ":".join([
    "AttentionMask.*", "AttentionEmpty.*", "AttentionShape.EmptyBatchesAndTotals", "AttentionShape.Segments",
    "AttentionShape.Record656", "AttentionShape.RopeTailOfEachType", "AttentionShape.ScalesInsideThePage",
    "BugCorpus.A16_*", "BugCorpus.B01_*", "BugCorpus.B06_*", "BugCorpus.B07_*", "BugCorpus.B12_*", "BugCorpus.D02_*",
    "BugCorpus.D16_*", "BugCorpus.B04_*", "KvAppend.NormAndRope", "KvAppend.SlotsPastThePool",
    "KvAppend.EmptyAndOddShapes", "KvAppend.MlaWithRopeTailAndValuesInKeys", "MergeStates.RandomParts",
    "MergeStates.EmptyPartsAreEmptyTogether"])
STEPS = ["kernels", "conformance", "cuda", "memcheck", "racecheck"]
FAMILY_ARCHS = {90: "90a", 100: "100f", 103: "100f", 110: "110f", 120: "120f", 121: "120f"}


def find_card():
    """(name, compute capability) of the first device, or the reason why there is none."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None, "no CUDA driver (libcuda.so.1) on this machine"
    code, count = cuda.cuInit(0), ctypes.c_int()
    if code != 0 or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return None, f"the CUDA driver finds no device (cuInit: {code})"
    name, major, minor = ctypes.create_string_buffer(256), ctypes.c_int(), ctypes.c_int()
    cuda.cuDeviceGetName(name, 256, 0)
    cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, 0)
    cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, 0)
    return (name.value.decode(), 10 * major.value + minor.value), ""


def kernel_driver():
    try:
        words = pathlib.Path("/proc/driver/nvidia/version").read_text(encoding="utf-8").split()
    except OSError:
        return ""
    return next((w for w in words if re.fullmatch(r"\d+\.\d+(\.\d+)?", w)), "")


def slug(card):
    return re.sub(r"[^a-z0-9]+", "-", card.lower().replace("nvidia", "").replace("geforce", "")).strip("-")


def digest(path):
    """SHA-256 of a bundle, or of all bundles of a folder in the order of their names."""
    files = sorted(path.glob("*.bundle")) if path.is_dir() else [path]
    total = hashlib.sha256()
    for file in files:
        total.update(file.read_bytes())
    return total.hexdigest() if files else ""


class Run:
    """One program, divided over processes."""

    def __init__(self, options, name, program, test_filter=None, prefix=(), environment=None, shards=1, each=None):
        self.name, self.prefix, self.shards = name, list(prefix), shards
        self.command = [str(options.bin / program)]
        if test_filter:
            self.command.append(f"--gtest_filter={test_filter}")
        self.environment = dict(os.environ, FOVEA_TEST_CUDA="1", GTEST_TOTAL_SHARDS=str(shards), GTEST_BRIEF="1",
                                **(environment or {}))
        if options.bundle:
            self.environment["FOVEA_TEST_BUNDLE"] = str(options.bundle)
        if options.cache:
            self.environment["FOVEA_TEST_CACHE"] = str(options.cache)
        self.timeout, self.each = options.timeout, each
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fovea-"))
        self.reports, self.codes, self.output = [], [], ""

    def shard(self, index):
        report = self.folder / f"{index}.json"
        environment = dict(self.environment, GTEST_SHARD_INDEX=str(index), FOVEA_TEST_REPORT=str(report))
        if self.each:
            environment.update(self.each(index), GTEST_TOTAL_SHARDS="1", GTEST_SHARD_INDEX="0")
        try:
            done = subprocess.run(self.prefix + self.command, env=environment, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace", timeout=self.timeout)
            code, output = done.returncode, done.stdout
        except subprocess.TimeoutExpired as late:
            partial = late.stdout or b""
            code, output = 124, partial.decode(errors="replace") + f"\nno end after {self.timeout} s\n"
        return code, output, report

    def go(self):
        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(self.shards) as pool:
            for code, output, report in pool.map(self.shard, range(self.shards)):
                self.codes.append(code)
                self.output += output
                if report.is_file():
                    self.reports.append(json.loads(report.read_text(encoding="utf-8")))
        self.seconds = round(time.monotonic() - start, 1)
        shutil.rmtree(self.folder)
        return self

    def failures(self):
        found = sorted({f for report in self.reports for f in report["failures"]})
        if len(self.reports) < self.shards:
            found.append(f"{self.shards - len(self.reports)} of {self.shards} processes of {self.name} ended early")
        if not found and any(self.codes):
            found.append(f"{self.name} ended with {sorted(set(self.codes))}")
        return found


def join(reports):
    """Sums of the counts, and the union of what is named."""
    operations = collections.defaultdict(lambda: collections.defaultdict(collections.Counter))
    reasons = collections.defaultdict(lambda: collections.defaultdict(collections.Counter))
    tests, kernels, compiled = collections.Counter(), set(), 0
    for report in reports:
        for op, families in report["operations"].items():
            for family, counts in families.items():
                reasons[op][family].update(counts["reasons"])
                operations[op][family].update({k: v for k, v in counts.items() if k != "reasons"})
        tests.update(report["tests"])
        kernels.update(report.get("kernels", []))
        compiled += report.get("kernels_compiled", 0)
    joined = {op: {family: dict(operations[op][family], reasons=dict(reasons[op][family].most_common()))
                   for family in sorted(operations[op])} for op in sorted(operations)}
    return joined, dict(tests), sorted(kernels), compiled


def sanitize(options, tool):
    """A step of compute-sanitizer: its entry in the result, and the run."""
    program = options.sanitizer or shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not pathlib.Path(program).is_file():
        return {"run": False, "why": "compute-sanitizer is not installed"}, None
    prefix = [program, "--tool", tool, "--error-exitcode", "77", "--print-limit", "5"]
    # Memcheck knows allocations; racecheck only watches shared memory.
    environment = {"FOVEA_TEST_DEVICE": "separate"} if tool == "memcheck" else {}
    run = Run(options, tool, "test_conformance", options.reduced, prefix, environment, options.shards).go()
    summaries = [int(n) for n in re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)", run.output)]
    if not summaries:
        words = [line for line in run.output.splitlines() if line.startswith("=========")] or run.output.splitlines()
        return {"run": False, "why": " ".join(words[:3])[:300] or f"ended with {run.codes}"}, run
    entry = {"run": True, "errors": sum(summaries), "tests": join(run.reports)[1], "failures": run.failures()}
    if sum(summaries):
        entry["failures"].append(f"{sum(summaries)} errors")
    return entry, run


def compile_kernels(options, capability, environment):
    """All that the suite needs, compiled by every core: its entry in the result, and what failed."""
    cores = os.cpu_count() or 1
    arch = FAMILY_ARCHS.get(capability, str(capability))

    def each(index):
        return {"FOVEA_TEST_COMPILE": f"{index}/{cores}", "FOVEA_TEST_ARCH": arch}

    run = Run(options, "kernels", "test_conformance", options.filter, environment=environment, shards=cores, each=each).go()
    compiled = sum(report.get("kernels_compiled", 0) for report in run.reports)
    return {"run": True, "compiled": compiled, "failures": run.failures()}, run


def run_step(options, step, capability):
    """(entry in the result, run, joined counts of the suite or None)"""
    environment = {"FOVEA_FUZZ_CASES": str(options.fuzz)}
    if step == "kernels":
        return *compile_kernels(options, capability, environment), None
    if step in ("memcheck", "racecheck"):
        return *sanitize(options, step), None
    shards = options.shards if step == "conformance" else min(options.shards, 4)
    run = Run(options, step, f"test_{step}", options.filter, environment=environment, shards=shards).go()
    joined = join(run.reports)
    return {"run": True, "tests": joined[1], "failures": run.failures()}, run, joined if step == "conformance" else None


def print_result(result, path):
    for op, families in result.get("operations", {}).items():
        for family, c in families.items():
            print(f"{op:13} {family:16} {c['passed']:7} passed {c['refused']:7} refused {c['rejected']:6} rejected "
                  f"{c['failed']:5} failed")
    failures = [f"{step}: {f}" for step, entry in result["steps"].items() for f in entry.get("failures", [])]
    print("\n".join(failures[:40]))
    print(f"{path}: {'all passed' if not failures else f'{len(failures)} failures'}")
    return 1 if failures else 0


def measure(options, card, capability):
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / f"gpu-conformance-{slug(card)}.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    result = {"card": card, "compute_capability": capability, "date": datetime.date.today().isoformat(),
              "kernel_driver": kernel_driver()}
    if options.bundle:
        result["bundle_sha256"] = digest(options.bundle)
    result["steps"] = {}
    for step in options.steps:
        print(f"{step} ..", flush=True)
        entry, run, joined = run_step(options, step, capability)
        for key in ("arch", "driver", "nvrtc", "bundle", "sources"):
            for report in run.reports if run and step != "kernels" else []:
                if report.get(key):  # file names, but no folders of this machine
                    result.setdefault(key, re.sub(r"/(?:[^\s/()]+/)*", "", report[key]))
        # Steps of the same sources that an earlier command ran are kept.
        if before and before.get("sources") == result.get("sources"):
            result = {**before, **result, "steps": {**before["steps"], **result["steps"]}}
            before = {}
        if run:
            entry["seconds"] = run.seconds
        result["steps"][step] = entry
        if joined:
            result.update(operations=joined[0], kernels=joined[2], kernels_compiled=joined[3])
        print(f"{step}: {json.dumps({k: v for k, v in entry.items() if k not in ('run', 'failures')})}", flush=True)
        if entry.get("failures"):
            log = options.output / f"{step}.log"
            log.write_text(run.output, encoding="utf-8")
            print(run.output[-options.tail:] if options.tail else f"see {log}", flush=True)
        path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")  # a later step may take too long
    return print_result(result, path)


def say_age():
    paths = sorted((ROOT / "results").glob("gpu-conformance-*.json"))
    now = source_hash()
    for path in paths:
        made_from = json.loads(path.read_text(encoding="utf-8")).get("sources")
        state = "made from these sources" if made_from == now else "older than the sources; `make test-gpu` makes it anew"
        print(f"{path.relative_to(ROOT)}: {state}")
    if not paths:
        print("No result of a card in results/ yet; `make test-gpu` makes one.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build-release/bin", help="folder of the test programs")
    parser.add_argument("--bundle", type=pathlib.Path, help="kernel bundle, or a folder of them")
    parser.add_argument("--cache", type=pathlib.Path, help="folder of compiled kernels (default: the user's)")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "results")
    parser.add_argument("--shards", type=int, default=max(1, (os.cpu_count() or 1) * 3 // 4), help="processes at a time")
    parser.add_argument("--steps", type=lambda text: text.split(","), default=STEPS, help="of " + ",".join(STEPS))
    parser.add_argument("--filter", help="--gtest_filter of the steps conformance and cuda")
    parser.add_argument("--reduced", default=REDUCED, help="the same of the sanitizers' steps")
    parser.add_argument("--fuzz", type=int, default=300, help="random calls of each fuzz test; most take kernels of their own")
    parser.add_argument("--timeout", type=int, default=1800, help="seconds of one process")
    parser.add_argument("--tail", type=int, default=3000, help="characters of output to print of a step that failed")
    parser.add_argument("--sanitizer", help="path of compute-sanitizer")
    parser.add_argument("--probe", action="store_true", help="only look for a card")
    parser.add_argument("--age", action="store_true", help="only compare the results in the tree with the sources")
    options = parser.parse_args()
    if unknown := set(options.steps) - set(STEPS):
        parser.error(f"--steps {','.join(unknown)}: choose from {','.join(STEPS)}")
    if options.age:
        return say_age()
    card, why_not = find_card()
    if card is None:
        print(f"test-gpu: {why_not}")
        return 2
    print(f"{card[0]}, compute capability {card[1] // 10}.{card[1] % 10}")
    return 0 if options.probe else measure(options, *card)


if __name__ == "__main__":
    sys.exit(main())
