#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles each header of include/ and src/ alone, as C++20; those of include/fovea/*.h also as C11."""
import concurrent.futures
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
STRICT = ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Iinclude", "-x"]
# Highway's per-target headers are compiled once for the machine's floor, with SSE4 so that every operation exists.
CXX = [os.environ.get("CXX", "g++"), "-std=c++20", "-Isrc", "-DHWY_COMPILE_ONLY_STATIC", "-DHWY_DISABLE_PCLMUL_AES",
       "-DHWY_SHARED_DEFINE", "-Wno-psabi", "-Wno-unused-function", *STRICT, "c++"]
C = [os.environ.get("CC", "gcc"), "-std=c11", *STRICT, "c"]
if os.uname().machine == "x86_64":
    CXX.insert(1, "-march=x86-64-v2")


def compile_alone(job):
    command, header = job
    result = subprocess.run(command + ["-"], input=f'#include "{header}"\n', cwd=ROOT, capture_output=True, text=True)
    return header, command[0], result.returncode, result.stderr


def main():
    jobs = []
    for folder in ("include", "src"):
        for path in sorted((ROOT / folder).rglob("*.h*")):
            jobs.append((CXX, path.relative_to(ROOT / folder).as_posix()))
            if folder == "include" and path.suffix == ".h":
                jobs.append((C, path.relative_to(ROOT / folder).as_posix()))
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for header, compiler, status, errors in pool.map(compile_alone, jobs):
            if status != 0:
                failed += 1
                print(f"{header} does not compile alone with {compiler}:\n{errors}")
    print(f"{len(jobs)} compiled, {failed} failed")
    return 1 if failed or not jobs else 0


if __name__ == "__main__":
    sys.exit(main())
