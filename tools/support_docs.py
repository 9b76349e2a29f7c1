#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps the support tables of the documentation equal to what the library answers, and to what was measured on cards.

  tools/support_docs.py FOVEA [--check]    FOVEA is the built command; --check changes nothing and fails where they differ

`FOVEA info --support` prints the tables, each under a heading. Three more come from results/: on which cards the
conformance suite ran and with what result (gpu-conformance-*.json), for which architectures the kernels compile
(kernel-resources.tsv), and why calls were refused. A page holds the part between these two lines:
  <!-- support: HEADING -->    the table of that heading; "all" is every heading and table
  <!-- end of support -->
"""
import collections
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ["README.md", "docs/support.md"]
BLOCK = re.compile(r"(<!-- support: (.*?) -->\n)(.*?)(<!-- end of support -->)", re.DOTALL)


def table(header, rows):
    lines = [header, ["---"] * len(header)] + rows
    return "".join("| " + " | ".join(str(cell) for cell in line) + " |\n" for line in lines)


def tested_on(results):
    """One row for each card, operation and kernel family."""
    rows = []
    for r in results:
        tools = [f"{tool} {'clean' if step['errors'] == 0 else step['errors']}" if step["run"] else f"{tool} not run"
                 for tool, step in r["steps"].items() if tool in ("memcheck", "racecheck")]
        card = f"{r['card']}, CUDA {r.get('driver', 'unknown')}, {r['date']}; {', '.join(tools) or 'no sanitizer'}"
        for op, families in r.get("operations", {}).items():
            for family, n in families.items():
                rows.append([card, f"`{op}`", family, n["passed"], n["refused"], n["failed"]])
                card = ""
    if not rows:
        return "No card has run the conformance suite yet.\n"
    return table(["card", "operation", "kernels", "passed", "refused", "failed"], rows)


def compiles_for(text):
    """Kernels of each entry by architecture, as the table of registers and memory lists them."""
    counts, archs = collections.defaultdict(collections.Counter), []
    for line in text.splitlines()[1:]:
        arch, kernel = line.split("\t")[:2]
        counts[kernel.partition("<")[0]][arch] += 1
        if arch not in archs:
            archs.append(arch)
    archs.sort(key=lambda arch: int(re.match(r"\d+", arch)[0]))
    entries = sorted(entry for entry in counts if not entry.startswith("selftest"))
    return table(["kernels"] + [f"sm_{arch}" for arch in archs],
                 [[f"`{entry}`"] + [counts[entry][arch] or "-" for arch in archs] for entry in entries])


def refusals(results):
    """Reasons by operation, over all families and cards."""
    reasons = collections.Counter()
    for r in results:
        for op, families in r.get("operations", {}).items():
            for n in families.values():
                for reason, count in n["reasons"].items():
                    reasons[op, reason.removeprefix(op + ": ")] += count
    if not reasons:
        return "Nothing was refused.\n"
    rows = sorted(reasons.items(), key=lambda row: (row[0][0], -row[1], row[0][1]))
    return table(["operation", "reason", "calls"], [[f"`{op}`", reason, n] for (op, reason), n in rows])


def cuda_parts():
    folder = ROOT / "results"
    results = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("gpu-conformance-*.json"))]
    kernels = (folder / "kernel-resources.tsv").read_text(encoding="utf-8")
    return {"CUDA: tested on": tested_on(results), "CUDA: compiles for": compiles_for(kernels),
            "CUDA: refused": refusals(results)}


def main():
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    if len(arguments) != 1:
        sys.exit(__doc__)
    tables = subprocess.run([arguments[0], "info", "--support"], capture_output=True, text=True, check=True).stdout
    parts = {"all": tables, **cuda_parts()}
    for part in re.split(r"^### ", tables, flags=re.MULTILINE)[1:]:
        heading, _, rows = part.partition("\n\n")
        parts[heading] = rows.rstrip("\n") + "\n"

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
        sys.exit(f"{', '.join(stale)}: not what the library and results/ say; run `make docs`")
    print(f"updated {', '.join(stale)}" if stale else "support tables are current")


if __name__ == "__main__":
    main()
