#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the fuzz targets of a build: tools/fuzz.py [--bin build-fuzz/bin] [--seconds 60] [TARGET...]

As many targets at once as there are cores, each for --seconds. What an earlier run learned is kept in .cache/fuzz/corpus
and used again. An input that breaks a target is written to .cache/fuzz/found, and the run fails.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "fuzz"
KEPT = ROOT / "tests" / "fuzz" / "findings"
MOST_BYTES = {"gguf": 32768}  # of an input; others: 4096
COLUMNS = [("target", "{}"), ("seconds", "{:.0f}"), ("executions", "{}"), ("a second", "{:.0f}"), ("edges", "{}"),
           ("features", "{}"), ("corpus", "{}"), ("result", "{}")]


def stop(message):
    print(f"fovea: {message}", file=sys.stderr)
    sys.exit(2)


def last(pattern, text, otherwise=0):
    found = re.findall(pattern, text)
    return int(found[-1]) if found else otherwise


def run(target, program, seconds, runs):
    """The row of one target's run."""
    corpus, found = CACHE / ("corpus-of-runs" if runs else "corpus") / target, CACHE / "found" / target
    if runs:  # the same inputs whatever ran before
        shutil.rmtree(corpus, ignore_errors=True)
    for folder in (corpus, found):
        folder.mkdir(parents=True, exist_ok=True)
    command = [program, f"-max_total_time={0 if runs else seconds}", f"-max_len={MOST_BYTES.get(target, 4096)}", "-timeout=60", "-report_slow_units=60",
               "-rss_limit_mb=1024", "-malloc_limit_mb=256", "-print_final_stats=1", f"-artifact_prefix={found}/", corpus]
    if runs:
        command += ["-seed=1", f"-runs={runs}"]
    command += [folder for folder in (CACHE / "seeds" / target, KEPT / target) if folder.is_dir()]
    environment = os.environ | {"ASAN_OPTIONS": "quarantine_size_mb=32", "UBSAN_OPTIONS": "print_stacktrace=1"}
    if pathlib.Path("/dev/shm").is_dir():
        environment["TMPDIR"] = "/dev/shm"
    log = CACHE / f"{target}.log"
    start = time.monotonic()
    with open(log, "w") as out:
        code = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, env=environment).returncode
    took = time.monotonic() - start
    text = log.read_text(errors="replace")
    executions = last(r"stat::number_of_executed_units: (\d+)", text)
    result = "ok" if code == 0 else f"FAILED: {log.relative_to(ROOT)}"
    return (target, took, executions, executions / max(took, 1), last(r"cov: (\d+)", text), last(r"ft: (\d+)", text),
            last(r"corp: (\d+)", text), result)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build-fuzz" / "bin")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--runs", type=int, help="stop after as many inputs, the same ones each time")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    args = parser.parse_args()
    programs = {path.name[len("fuzz_"):]: path for path in sorted(args.bin.resolve().glob("fuzz_*"))}
    if not programs:
        stop(f"no fuzz programs in {args.bin}; type: make fuzz")
    if unknown := [t for t in args.targets if t not in programs]:
        stop(f"no target {unknown[0]}: there are {', '.join(programs)}")
    subprocess.run([ROOT / "tests" / "fuzz" / "make_seeds.py", CACHE / "seeds"], check=True)
    wanted = args.targets or list(programs)
    with concurrent.futures.ThreadPoolExecutor(max(args.jobs, 1)) as pool:
        rows = list(pool.map(lambda t: run(t, programs[t], args.seconds, args.runs), wanted))
    table = [[name for name, _ in COLUMNS]] + [[form.format(cell) for (_, form), cell in zip(COLUMNS, row)] for row in rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(COLUMNS))]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    sys.exit(0 if all(row[-1] == "ok" for row in rows) else 1)


if __name__ == "__main__":
    main()
