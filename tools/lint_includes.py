#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks which file may include which, and the outward form of each source file: licence line, ASCII, length.

Layers are folders. A file belongs to the longest prefix in SEES that its path starts with, and may include files of the
layers in its row, outside libraries of its row, and the standard library.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_LINES = 600

PUBLIC = ["include/fovea"]
TABLES = ["include/fovea/*.def"]

# folder: (layers it may include, outside libraries it may include). "*" allows everything of this tree.
SEES = {
    "include/fovea": (PUBLIC, []),
    "src/shared": (TABLES + ["src/shared"], []),
    "src/base": (PUBLIC + ["src/shared", "src/base"], []),
    "src/plan": (PUBLIC + ["src/shared", "src/base", "src/plan"], []),
    "src/ops": (PUBLIC + ["src/shared", "src/base", "src/plan", "src/ops"], []),
    "src/pool": (PUBLIC + ["src/shared", "src/base", "src/pool"], []),
    "src/backend/cpu": (TABLES + ["src/shared", "src/base", "src/plan", "src/ops", "src/backend/cpu"], ["hwy"]),
    "src/backend/cpu/kernels": (TABLES + ["src/shared", "src/backend/cpu/kernels"], ["hwy"]),
    "src/backend/cuda": (TABLES + ["src/shared", "src/base", "src/plan", "src/ops", "src/backend/cuda"], []),
    "src/backend/cuda/kernels": (TABLES + ["src/shared", "src/backend/cuda/kernels"], []),
    "tools": (PUBLIC + ["src"], []),
    "python/src": (PUBLIC + ["python/src"], ["nanobind"]),
    "src/api": (PUBLIC + ["src"], []),
    "apps": (PUBLIC + ["apps"], ["CLI", "nlohmann", "pcre2.h"]),
    "apps/bench": (PUBLIC + ["apps/bench", "apps/engine/error.h"], ["nlohmann", "hwy"]),
    "bench": (PUBLIC + ["bench", "apps/bench"], ["benchmark"]),
    "tests": (["*"], ["gtest", "gmock", "hwy", "nlohmann"]),
    "tests/fake_cuda": ([], []),
    "tests/cuda/kernels": (TABLES + ["src/shared", "src/backend/cuda/kernels", "tests/cuda/kernels"], []),
    "tests/oracle": (PUBLIC + ["tests/oracle"], []),
    "tests/apps": (PUBLIC + ["apps", "tests"], ["gtest", "gmock", "nlohmann"]),
    "tests/install": (PUBLIC, []),
}
# What these may include of the system; all others may include anything of it.
SYSTEM = {"src/shared": [], "src/backend/cuda/kernels": [], "tests/cuda/kernels": [], "include/fovea/*.h": ["stdint.h"]}
SEARCH = ["src", "include", "apps", "tests", "bench"]
# An include in angle brackets of a known outside library; any other one is the system's.
OUTSIDE = re.compile(r"^(hwy|CLI|nlohmann|gtest|gmock|benchmark|torch|nanobind|ATen|c10|cuda|cuda_\w+|cublas\w*|nvrtc|nccl|pybind11)[/.]"
                     r"|^(pcre2\.h|Python\.h)$")

CODE = {".cpp", ".hpp", ".h", ".c", ".def", ".cuh", ".cu", ".metal", ".mm"}
SCRIPTS = {".py", ".sh", ".cmake", ".toml"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def files():
    """Tracked and new files, ignored ones left out."""
    listing = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [pathlib.PurePosixPath(name) for name in listing.stdout.splitlines() if (ROOT / name).is_file()]


def layer(path):
    """The row of SEES that the file belongs to, or None."""
    for parent in path.parents:
        if str(parent) in SEES:
            return str(parent)
    return None


def resolve(path, name):
    """The file of this tree that an include names, or None."""
    for folder in [str(path.parent)] + SEARCH:
        if (ROOT / folder / name).is_file():
            return pathlib.PurePosixPath(folder) / name
    return None


def allowed(target, layers):
    for row in layers:
        if row == "*" or target.is_relative_to(row):
            return True
        if row.endswith("*.def") and target.suffix == ".def" and target.is_relative_to(row[: -len("/*.def")]):
            return True
    return False


def include_errors(path, lines):
    row = layer(path)
    if row is None:
        yield 1, "belongs to no layer; add its folder to SEES in tools/lint_includes.py"
        return
    layers, libraries = SEES[row]
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        bracket, name = match.groups()
        outside = OUTSIDE.match(name)
        if outside and (bracket == "<" or resolve(path, name) is None):
            library = outside.group(1) or outside.group(2)
            if library not in libraries:
                yield number, f"{row} may not include {name}"
            continue
        target = resolve(path, name)
        if target is None and bracket == '"':
            yield number, f"includes {name}, which is not in this tree"
        elif target is not None and not allowed(target, layers):
            yield number, f"{row} may not include {target}; it sees {', '.join(layers)}"
        elif target is None:
            for pattern, names in SYSTEM.items():
                if (path.match(pattern) or row == pattern) and name not in names:
                    yield number, f"{pattern} may not include <{name}>"


def form_errors(path, text, lines):
    if not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:2]):
        yield 1, "has no line 'SPDX-License-Identifier: Apache-2.0' at its head"
    if len(lines) > MAX_LINES:
        yield MAX_LINES, f"has {len(lines)} lines; at most {MAX_LINES}"
    if not text.isascii():
        number = next(n for n, line in enumerate(lines, 1) if not line.isascii())
        yield number, "holds a character that is not ASCII"


def main():
    count = 0
    problems = []
    for path in files():
        script = path.suffix in SCRIPTS or path.name in ("CMakeLists.txt", "Makefile")
        if path.suffix not in CODE and not script:
            continue
        count += 1
        text = (ROOT / path).read_text(encoding="utf-8")
        lines = text.splitlines()
        found = list(form_errors(path, text, lines))
        if not script:
            found += include_errors(path, lines)
        problems += [f"{path}:{number}: {message}" for number, message in found]
    print("\n".join(problems + [f"{count} files, {len(problems)} problems"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
