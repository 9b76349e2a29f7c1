#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the documentation's links: each leads to a file, docs/README.md names every page, every operation has one."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(#[^)]*)?\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def links(page):
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    return [target for target, _ in LINK.findall(text) if ":" not in target]


def main():
    docs = ROOT / "docs"
    pages = [*ROOT.glob("*.md"), *sorted(docs.glob("**/*.md"))]
    problems = [f"{page.relative_to(ROOT)}: {target} leads nowhere"
                for page in pages for target in links(page) if not (page.parent / target).exists()]
    named = {(docs / target).resolve() for target in links(docs / "README.md")}
    problems += [f"docs/README.md: does not name {page.name}"
                 for page in docs.glob("**/*.md") if page.name != "README.md" and page.resolve() not in named]
    operations = re.findall(r"^FOVEA_OP\((\w+)", (ROOT / "include/fovea/operations.def").read_text(), re.MULTILINE)
    problems += [f"docs/{op}.md: is missing" for op in operations if not (docs / f"{op}.md").exists()]
    print("\n".join(problems + [f"{len(pages)} pages, {len(problems)} problems"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
