#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps the support tables of the documentation equal to what the library answers.

  tools/support_docs.py FOVEA [--check]    FOVEA is the built command; --check changes nothing and fails where they differ

`FOVEA info --support` prints the tables, each under a heading. A page holds the part between these two lines:
  <!-- support: HEADING -->    the table of that heading; "all" is every heading and table
  <!-- end of support -->
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ["README.md", "docs/support.md"]
BLOCK = re.compile(r"(<!-- support: (.*?) -->\n)(.*?)(<!-- end of support -->)", re.DOTALL)


def main():
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    if len(arguments) != 1:
        sys.exit(__doc__)
    tables = subprocess.run([arguments[0], "info", "--support"], capture_output=True, text=True, check=True).stdout
    parts = {"all": tables}
    for part in re.split(r"^### ", tables, flags=re.MULTILINE)[1:]:
        heading, _, table = part.partition("\n\n")
        parts[heading] = table.rstrip("\n") + "\n"

    stale = []
    for page in PAGES:
        path = ROOT / page
        text = path.read_text(encoding="utf-8")
        if not BLOCK.search(text):
            sys.exit(f"{page} has no support block; tools/support_docs.py says how it looks")
        fresh = BLOCK.sub(lambda block: block[1] + "\n" + parts[block[2]].rstrip("\n") + "\n\n" + block[4], text)
        if fresh == text:
            continue
        stale.append(page)
        if "--check" not in sys.argv:
            path.write_text(fresh, encoding="utf-8")
    if stale and "--check" in sys.argv:
        sys.exit(f"{', '.join(stale)}: not what the library answers; run `make docs`")
    print(f"updated {', '.join(stale)}" if stale else "support tables are current")


if __name__ == "__main__":
    main()
