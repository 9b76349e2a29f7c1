#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves the test suite: makes one-line breakages in a copy of the tree and demands that a named test turns red.

The rows stand in tests/mutants/*.toml. The copy lives in build-mutants/ and is built step by step: only what a
breakage touches is compiled again. The working tree is never changed.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLES = ROOT / "tests" / "mutants"
WORK = ROOT / "build-mutants"
TREE = WORK / "tree"
BUILD = WORK / "build"
KEYS = {"name": str, "file": str, "find": str, "replace": str, "program": str, "tests": str}
TEST_SECONDS = 300


class Broken(Exception):
    """The run itself went wrong; it says nothing about the suite."""


def read_table():
    rows = []
    names = set()
    for table in sorted(TABLES.glob("*.toml")):
        rows += [row | {"table": table.name} for row in tomllib.loads(table.read_text(encoding="utf-8")).get("mutant", [])]
    for row in rows:
        for key, kind in KEYS.items():
            if not isinstance(row.get(key), kind):
                raise Broken(f"{row['table']}: {row.get('name', 'a row')} has no '{key}'")
        unknown = set(row) - set(KEYS) - {"ci", "needs", "table"}
        if unknown:
            raise Broken(f"{row['table']}: {row['name']} has the unknown keys {sorted(unknown)}")
        if row["name"] in names:
            raise Broken(f"{row['table']}: two rows are named {row['name']}")
        names.add(row["name"])
    return rows


def broken_text(row):
    """The file's text with the breakage in it."""
    path = ROOT / row["file"]
    if not path.is_file():
        raise Broken(f"{row['name']}: there is no file {row['file']}")
    text = path.read_text(encoding="utf-8")
    found = text.count(row["find"])
    if found != 1:
        raise Broken(f"{row['name']}: {row['file']} holds the text to find {found} times, not once")
    if row["find"] == row["replace"]:
        raise Broken(f"{row['name']}: the replacement changes nothing")
    return text.replace(row["find"], row["replace"])


def copy_tree():
    """Brings the copy up to date. Files that did not change keep their time, so they are not compiled again."""
    listing = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True)
    wanted = {name for name in listing.stdout.decode().split("\0") if name and (ROOT / name).is_file()}
    for name in wanted:
        source, target = ROOT / name, TREE / name
        if target.is_file() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        shutil.copymode(source, target)
    for target in list(TREE.rglob("*")):
        if target.is_file() and target.relative_to(TREE).as_posix() not in wanted:
            target.unlink()


def build(programs, jobs):
    """Empty when the build succeeds, else the end of what the compiler said."""
    result = subprocess.run(["cmake", "--build", BUILD, "-j", str(jobs), "--target", *sorted(programs)], capture_output=True, text=True)
    return "" if result.returncode == 0 else (result.stdout + result.stderr)[-3000:]


def configure():
    command = ["cmake", "--preset", "dev", "-B", BUILD, "-DCMAKE_CXX_FLAGS_DEBUG=-O1", "-DFOVEA_WERROR=OFF"]
    result = subprocess.run(command, cwd=TREE, capture_output=True, text=True)
    if result.returncode != 0:
        raise Broken(f"configuring failed:\n{(result.stdout + result.stderr)[-3000:]}")


def run_tests(row):
    """How the tests of a row end: 'green', 'red', 'crash' or 'hang', and how many of them ran."""
    command = [BUILD / "bin" / row["program"], f"--gtest_filter={row['tests']}", "--gtest_brief=1"]
    environment = dict(os.environ)
    environment.setdefault("FOVEA_TEST_MODEL", str(ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"))
    try:
        result = subprocess.run(command, cwd=TREE, capture_output=True, text=True, errors="replace", timeout=TEST_SECONDS, env=environment)
    except subprocess.TimeoutExpired:
        return "hang", 0
    passed = re.search(r"\[  PASSED  \] (\d+) test", result.stdout)
    ran = int(passed.group(1)) if passed else 0
    if result.returncode == 0:
        return "green", ran
    return ("crash" if result.returncode < 0 else "red"), ran


def check_whole_tree(rows, jobs):
    """The tests of every row must be green before anything is broken: else red would prove nothing."""
    start = time.monotonic()
    print(f"Building the unbroken tree in {WORK.relative_to(ROOT)}", flush=True)
    errors = build({row["program"] for row in rows}, jobs)
    if errors:
        raise Broken(f"the unbroken tree does not build:\n{errors}")
    for row in {(row["program"], row["tests"]): row for row in rows}.values():
        verdict, ran = run_tests(row)
        if verdict != "green" or ran == 0:
            raise Broken(f"{row['name']}: unbroken, '{row['program']} --gtest_filter={row['tests']}' is {verdict} with {ran} tests passed")
    print(f"Unbroken: all green ({time.monotonic() - start:.0f} s)", flush=True)


def try_mutant(row, jobs):
    """The verdict of one breakage: 'killed', 'SURVIVED' or 'NOT BUILT', with a remark."""
    target = TREE / row["file"]
    target.write_text(broken_text(row), encoding="utf-8")
    try:
        errors = build({row["program"]}, jobs)
        if errors:
            return "NOT BUILT", errors
        verdict, _ = run_tests(row)
        return ("SURVIVED", "") if verdict == "green" else ("killed", "" if verdict == "red" else verdict)
    finally:
        shutil.copyfile(ROOT / row["file"], target)


def can_run(row):
    """Whether this processor has what the row's tests need; where not, they are skipped and kill nothing."""
    flags = re.search(r"^flags\s*:(.*)", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    if "needs" not in row or (flags and row["needs"] in flags.group(1).split()):
        return True
    print(f"skipped    {row['name']:<34} this processor has no {row['needs']}", flush=True)
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only these rows")
    parser.add_argument("--ci", action="store_true", help="only the rows marked ci = true")
    parser.add_argument("--list", action="store_true", help="check and list the rows, build nothing")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()

    rows = read_table()
    unknown = set(options.names) - {row["name"] for row in rows}
    if unknown:
        raise Broken(f"no rows are named {sorted(unknown)}")
    rows = [row for row in rows if (row.get("ci") or not options.ci) and (not options.names or row["name"] in options.names)]
    if not rows and not options.list:
        raise Broken(f"{TABLES.name} has no such rows")
    for row in rows:
        broken_text(row)
    if options.list:
        for row in rows:
            print(f"{row['name']:<34} {row['file']:<44} {row['program']} {row['tests']}{'  ci' if row.get('ci') else ''}")
        return 0

    rows = [row for row in rows if can_run(row)]
    copy_tree()
    configure()
    check_whole_tree(rows, options.jobs)
    survivors = []
    for row in rows:
        start = time.monotonic()
        verdict, remark = try_mutant(row, options.jobs)
        print(f"{verdict:<10} {row['name']:<34} {time.monotonic() - start:4.0f} s  {row['program']} {row['tests']} {remark}", flush=True)
        if verdict != "killed":
            survivors.append(row["name"])
    print(f"{len(rows)} mutants: {len(rows) - len(survivors)} killed, {len(survivors)} not" + (f" ({', '.join(survivors)})" if survivors else ""))
    return 1 if survivors else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Broken as error:
        sys.exit(f"mutants: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
