#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the C and C++ examples out of the documentation, so that they can be compiled and run.

  tools/doc_examples.py OUT    writes each ```cpp and ```c block of README.md and docs/ to OUT and prints the file names

A block is a whole program with its own main; the n-th block of docs/rope.md becomes OUT/rope.n.cpp. A file that did not
change is left alone, one whose block is gone is removed.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^(\s*)```\s*(.*?)\s*$")
SUFFIX = {"cpp": ".cpp", "c++": ".cpp", "c": ".c"}


class Fault(Exception):
    pass


def blocks(path):
    """(line, language, text) of each fenced block."""
    indent = language = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        fence = FENCE.match(line)
        if language is None and fence:
            indent, language = fence.groups()
            start, body = number, []
        elif language is not None and fence and not fence[2]:
            yield start, language, "\n".join(body) + "\n"
            language = None
        elif language is not None:
            body.append(line.removeprefix(indent))
    if language is not None:
        raise Fault(f"{path.relative_to(ROOT)}:{start}: the block is not closed")


def examples():
    """(file name, text) of every example."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]:
        page = ".".join(path.relative_to(ROOT / "docs" if path.is_relative_to(ROOT / "docs") else ROOT).with_suffix("").parts)
        if path.parent == ROOT:
            page = "top." + page
        count = 0
        for line, language, text in blocks(path):
            where = f"{path.relative_to(ROOT)}:{line}"
            word = language.split()[0].lower() if language else ""
            if word not in SUFFIX:
                continue
            if language != word:
                raise Fault(f"{where}: write ```{word} alone; every block is compiled and run")
            if not re.search(r"\bint main\(", text):
                raise Fault(f"{where}: has no main; every example is a whole program")
            count += 1
            yield f"{page}.{count}{SUFFIX[word]}", f'#line {line + 1} "{path}"\n{text}'


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    try:
        wanted = dict(examples())
    except Fault as fault:
        print(fault, file=sys.stderr)
        return 1
    for old in out.iterdir():
        if old.name not in wanted:
            old.unlink()
    for name, text in wanted.items():
        file = out / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
        print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
