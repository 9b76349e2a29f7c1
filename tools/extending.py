#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves docs/extending.md: makes its edits in a copy of the tree, builds it and runs the tests that the page names.

  tools/extending.py [--work FOLDER] [--jobs N] [--edits]    --edits: only whether every edit finds its place

Blocks of the page, in order:

  ```diff          "--- FILE", then lines as in a patch, without numbers: what stands there, once in the file, and what comes
  ```cuda FILE     a new file
  ```run           a filter of tests, each of which must exist, run and pass
  ```bundle ARCH   names of kernels that a bundle for the architecture must hold; not done where there is no NVRTC

The copy lives in build-extending/. Files that did not change keep their time, so that a second run compiles little.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import time

import doc_examples

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "extending.md"
TEST_SECONDS = 600


class Broken(Exception):
    pass


def read_tree():
    """The text or bytes of every file of the tree."""
    listing = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True)
    names = [name for name in listing.stdout.decode().split("\0") if name and (ROOT / name).is_file()]
    return {name: (ROOT / name).read_bytes() for name in names}


def edit(tree, where, text):
    head, *lines = text.splitlines()
    name = head.removeprefix("--- ")
    if name == head or name not in tree:
        raise Broken(f"{where}: '{head}' names no file of the tree")
    wrong = [line for line in lines if line and line[0] not in " -+"]
    if wrong:
        raise Broken(f"{where}: '{wrong[0]}' begins with neither a space nor - nor +")
    before = "\n" + "".join(line[1:] + "\n" for line in lines if line[:1] != "+")
    after = "\n" + "".join(line[1:] + "\n" for line in lines if line[:1] != "-")
    whole = "\n" + tree[name].decode()
    if whole.count(before) != 1:
        raise Broken(f"{where}: {name} holds the lines to edit {whole.count(before)} times, not once")
    tree[name] = whole.replace(before, after)[1:].encode()


def apply_page(tree):
    """Makes the edits; returns filters of tests, and (architecture, kernels) of bundles."""
    filters, bundles, edits = [], [], 0
    for line, language, text in doc_examples.blocks(PAGE):
        if not language:
            continue
        where = f"{PAGE.relative_to(ROOT)}:{line}"
        kind, *rest = language.split()
        if kind == "diff":
            edit(tree, where, text)
            edits += 1
        elif kind == "cuda":
            if len(rest) != 1 or rest[0] in tree:
                raise Broken(f"{where}: must name a file that is new")
            tree[rest[0]] = text.encode()
            edits += 1
        elif kind == "run":
            filters += text.split()
        elif kind == "bundle":
            bundles.append((rest[0], text.split()))
        else:
            raise Broken(f"{where}: '{kind}' is none of diff, cuda, run, bundle")
    if not edits or not filters:
        raise Broken(f"{PAGE.relative_to(ROOT)}: no edits, or no tests")
    return filters, bundles, edits


def write_tree(tree, folder):
    for name, data in tree.items():
        target = folder / name
        if target.is_file() and target.read_bytes() == data:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        if (ROOT / name).is_file():
            target.chmod((ROOT / name).stat().st_mode)
    for target in list(folder.rglob("*")):
        if target.is_file() and target.relative_to(folder).as_posix() not in tree:
            target.unlink()


def call(command, what, **options):
    result = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            errors="replace", **options)
    if result.returncode != 0:
        raise Broken(f"{what}:\n{result.stdout[-4000:]}")
    return result.stdout


def run_tests(program, filters):
    """Every test of the filters, with cases in the types of tensor cores as well."""
    environment = os.environ | {"FOVEA_TEST_NARROW": "1"}
    wanted = ":".join(filters)
    listed = [line for line in call([program, f"--gtest_filter={wanted}", "--gtest_list_tests"], "listing tests").splitlines()
              if line.startswith("  ")]
    if len(listed) != len(wanted.split(":")):
        raise Broken(f"of {wanted} there are {len(listed)} tests")
    output = call([program, f"--gtest_filter={wanted}"], "the page's tests fail", env=environment, timeout=TEST_SECONDS)
    if f"[  PASSED  ] {len(listed)} test" not in output or "SKIPPED" in output:
        raise Broken(f"not every test ran:\n{output[-2000:]}")
    return len(listed)


def check_bundle(tool, folder, arch, kernels):
    file = folder / f"fovea-sm_{arch}.bundle"
    file.unlink(missing_ok=True)
    output = call([tool, "--sample", "--archs", arch, "--output", folder], "compiling the kernels")
    if not file.is_file():
        return output.strip().splitlines()[-1]
    data = file.read_bytes()
    for kernel in kernels:
        if kernel.encode() not in data:
            raise Broken(f"{file.name} has no kernel {kernel}")
    return f"{', '.join(kernels)} compiled for sm_{arch}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build-extending")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--edits", action="store_true")
    options = parser.parse_args()
    start = time.monotonic()
    tree = read_tree()
    filters, bundles, edits = apply_page(tree)
    print(f"{edits} edits", flush=True)
    if options.edits:
        return 0

    copy, build = options.work / "tree", options.work / "build"
    write_tree(tree, copy)
    os.environ.setdefault("CCACHE_BASEDIR", str(options.work))
    call(["cmake", "--preset", "dev", "-B", build, "-DCMAKE_CXX_FLAGS_DEBUG=-O0 -g0", "-DFOVEA_BUILD_APPS=OFF"], "configuring failed",
         cwd=copy)
    call(["cmake", "--build", build, "-j", options.jobs, "--target", "test_emulated", "fovea_bundle"], "the page's tree does not build")
    print(f"built ({time.monotonic() - start:.0f} s)", flush=True)
    print(f"{run_tests(build / 'bin' / 'test_emulated', filters)} tests passed ({time.monotonic() - start:.0f} s)", flush=True)
    for arch, kernels in bundles:
        print(f"{check_bundle(build / 'bin' / 'fovea_bundle', options.work / 'bundles', arch, kernels)} "
              f"({time.monotonic() - start:.0f} s)", flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Broken, doc_examples.Fault) as error:
        sys.exit(f"extending: {error}")
