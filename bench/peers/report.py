#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/peers.md and its plots from the JSON of compare.py: report.py results/peers-h200.json [..]"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BASE = "Fovea"
MARKERS = "osD^vP*X<>hd"


def number(value):
    """Three digits that say something."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.01 else f"{value:.1e}"


def names(rows):
    """Peers in the order of the rows; Fovea's first."""
    found = dict.fromkeys(name for row in rows for name, result in row["results"].items() if "skipped" not in result)
    return sorted(found, key=lambda name: not name.startswith(BASE))


def unit(row):
    """The unit of a row's rates, and what divides them."""
    if row["kind"] == "decode":
        return "GB/s", row["bytes"] * 1e-9
    fast = max((row["flops"] / result["seconds"] for result in row["results"].values() if "seconds" in result), default=0) >= 1e12
    return ("TFLOP/s", row["flops"] * 1e-12) if fast else ("GFLOP/s", row["flops"] * 1e-9)


def rate(row, result):
    return unit(row)[1] / result["seconds"]


def cell(row, name):
    result = row["results"].get(name, {"skipped": ""})
    if "seconds" in result:
        return number(rate(row, result))
    if "mismatch" in result:
        return "differs"
    return "failed" if "failed" in result else ""


def ratio(row):
    """The best of Fovea's times against the best of the others'; above 1 Fovea is faster."""
    times = {name: result["seconds"] for name, result in row["results"].items() if "seconds" in result}
    own = [seconds for name, seconds in times.items() if name.startswith(BASE)]
    others = {seconds: name for name, seconds in times.items() if not name.startswith(BASE)}
    return (min(others) / min(own), others[min(others)]) if own and others else None


def table(rows):
    """One line a case; columns are rates, then Fovea's speed over the best peer and which one that is."""
    columns, rate_name = names(rows), unit(rows[0])[0]
    lines = [f"| {rate_name} | " + " | ".join(columns) + " | speed over the best peer | best peer |", "|---" * (len(columns) + 3) + "|"]
    for row in rows:
        best = ratio(row)
        tail = [f"{best[0]:.2f}", best[1]] if best else ["", ""]
        lines.append("| " + " | ".join([f"{row['batch']} x {row['length']}", *(cell(row, name) for name in columns), *tail]) + " |")
    return lines


def groups(rows):
    """(title, rows) of one kind, head dim, heads and type."""
    found = {}
    for row in rows:
        found.setdefault((row["kind"], row["dtype"], row["d"], row["heads"], row["kv_heads"]), []).append(row)
    for (kind, dtype, d, heads, kv_heads), members in found.items():
        yield f"{kind.capitalize()}, {dtype}, d {d}, heads {heads}/{kv_heads}" + (", causal" if kind == "prefill" else ""), members


def complaints(rows):
    lines = []
    for row in rows:
        for name, result in row["results"].items():
            if "mismatch" in result:
                lines.append(f"- {row['name']}: {name} differs from {BASE}, worst row {result['worst_row_error']:.3g}, allowed {result['bound']:.3g}: not timed")
            elif "failed" in result:
                lines.append(f"- {row['name']}: {name}: {result['failed']}")
    return lines


def machine_lines(content):
    machine, roofs = content["machine"], content["roofs"]
    place = f"{machine['name']}, " + (f"CUDA {machine['cuda']}, cuDNN {machine['cudnn']}" if machine["device"] == "cuda" else f"{machine['isa']}, {machine['threads']} thread(s)")
    versions = ", ".join([f"PyTorch {machine['torch']}", *(f"{name} {version}" for name, version in machine["versions"].items())])
    copies, products = ([number(roof[key]) for roof in roofs] for key in ("copy_gb_per_s", "product_tflop_per_s"))
    return [f"`{machine['command']}` at {machine['commit']}: {place}; {versions}. In the same run, before and behind: copy "
            f"{' and '.join(copies)} GB/s (read and written), {roofs[0]['product_type']} product {' and '.join(products)} TFLOP/s "
            f"({roofs[0]['product_n']}^3).", ""]


def overhead_lines(content):
    cost = content.get("overhead")
    if not cost:
        return []
    lines = ["### What a call costs the host", "", "A decode call of little work, outputs given, calls in turn; microseconds, medians.", "", "| call | us |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in cost["microseconds"].items()]
    met = "met" if cost["python_over_cpp"] <= cost["wanted"] else "missed"
    return [*lines, "", f"Python adds {cost['python_over_cpp']} us to the C++ call; at most {cost['wanted']} wanted: {met}.", ""]


def section(content, plotted):
    rows = content["rows"]
    lines = [f"## {content['machine']['name']}", "", *machine_lines(content)]
    lines += [line for plot in plotted for line in (f"![{plot}]({plot})", "")]
    for title, members in groups(rows):
        lines += [f"### {title}", "", *table(members), ""]
    lines += overhead_lines(content)
    wrong = complaints(rows)
    if wrong:
        lines += ["### What did not run", "", *wrong, ""]
    lines += ["### Left out", "", *(f"- {name}: {reason}" for name, reason in content["skipped"].items()), ""]
    return lines


def plot(content, stem, folder):
    """One picture of each kind: a panel for each head dim, or for each batch. Returns file names."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    files, rows = [], content["rows"]
    for kind, key in (("prefill", "d"), ("decode", "batch")):
        members = [row for row in rows if row["kind"] == kind]
        lengths = {}
        for row in members:
            lengths.setdefault((row["dtype"], row[key]), set()).add(row["length"])
        panels = sorted(panel for panel, different in lengths.items() if len(different) > 1)
        if not panels:
            continue
        figure, axes = pyplot.subplots(1, len(panels), figsize=(4 * len(panels), 3.6), squeeze=False, sharey=kind == "decode")
        everybody = names(members)
        for axis, (dtype, value) in zip(axes[0], panels):
            for i, name in enumerate(everybody):
                points = sorted((row["length"], rate(row, row["results"][name])) for row in members
                                if (row["dtype"], row[key]) == (dtype, value) and "seconds" in row["results"].get(name, {}))
                if points:
                    axis.plot(*zip(*points), marker=MARKERS[i % len(MARKERS)], color=f"C{i % 10}", markersize=4, linewidth=1.2, label=name)
            axis.set_xscale("log", base=2)
            axis.set_ylim(0, 1.08 * max(rate(row, result) for row in members if kind == "decode" or (row["dtype"], row[key]) == (dtype, value)
                                        for result in row["results"].values() if "seconds" in result))
            axis.set_xlabel("keys of each sequence")
            axis.set_title(f"{kind}, {dtype}, {key} {value}", fontsize=9)
            axis.grid(alpha=0.3)
            if kind == "decode" and content["machine"]["device"] == "cuda":
                axis.axhline(content["roofs"][0]["copy_gb_per_s"], color="black", linestyle=":", linewidth=1)
        axes[0][0].set_ylabel(unit(members[0])[0])
        handles = {label: handle for axis in axes[0] for handle, label in zip(*axis.get_legend_handles_labels())}
        figure.legend(handles.values(), handles.keys(), loc="lower center", ncol=4, fontsize=8, frameon=False)
        figure.tight_layout(rect=(0, 0.06 + 0.04 * ((len(handles) + 3) // 4), 1, 1))
        files.append(f"{stem}-{kind}.png")
        figure.savefig(folder / files[-1], dpi=110)
        pyplot.close(figure)
    return files


HEAD = """# Beside peers

Generated by `bench/peers/report.py` from the JSON of `bench/peers/compare.py` (`make bench-peers`); edit neither tables nor plots.
Other measurements are in [benchmarks.md](benchmarks.md).

All read the same tensors, outputs given where a peer takes them. Before a peer is timed, its output is compared with Fovea's: the
worst row of d values may differ by 2^-6 of its length in bf16, 2^-12 in f32. Then they run in turn, A B A B, on operands that rotate over
twice the last cache; rates are from medians. On CUDA a sample is a captured graph of calls, so that what the host does between
calls does not count. Causal counts half; decode counts Q, output and each key and value once. An empty cell: not for this case.
"Speed over the best peer" is the better of Fovea's columns against the best of all others: above 1 Fovea is faster, below 1 slower.
"""


def main():
    docs = ROOT / "docs"
    lines = [HEAD]
    for path in map(pathlib.Path, sys.argv[1:]):
        content = json.loads(path.read_text())
        lines += section(content, plot(content, path.stem, docs))
    (docs / "peers.md").write_text("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main()
