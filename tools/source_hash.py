#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A digest of the files that decide what the conformance suite shows on a card: the library without its CPU kernels, the
suite and its helpers.

  tools/source_hash.py              prints it
  tools/source_hash.py --cpp FILE   writes it as the C++ constant that the tests put into their report
"""
import hashlib
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ["include", "src", "tests/conformance", "tests/oracle", "tests/support"]
LEFT_OUT = ROOT / "src" / "backend" / "cpu"


def source_hash():
    """SHA-256 over each file's path and contents, in the order of the paths."""
    total = hashlib.sha256()
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")
             if path.is_file() and LEFT_OUT not in path.parents]
    for path in sorted(paths, key=lambda p: p.relative_to(ROOT).as_posix()):
        name = path.relative_to(ROOT).as_posix()
        total.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def main():
    if len(sys.argv) == 1:
        print(source_hash())
    elif len(sys.argv) == 3 and sys.argv[1] == "--cpp":
        pathlib.Path(sys.argv[2]).write_text(
            "#include \"support/tally.h\"\n\nnamespace fovea::test {\n\n"
            f"const char* const kSourceHash = \"{source_hash()}\";\n\n}}  // namespace fovea::test\n", encoding="utf-8")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
