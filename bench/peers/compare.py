#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times attention of Fovea beside what users would pick instead, on the same tensors, and writes JSON.

    make bench-peers                                       or, with PyTorch and the package fovea importable:
    bench/peers/compare.py --json peers.json               [--device cpu] [--only WORDS] [--compile-seconds 270]

Each peer's output is compared with Fovea's first; one that differs is reported and not timed. Then all peers are timed in turn, A
B A B, on operands that rotate over twice the last cache; printed are medians. On CUDA, FlashInfer's modules are compiled
meanwhile, and what needs none of them is timed twice: at once, and again beside FlashInfer. bench/peers/report.py makes
docs/peers.md of the JSON.
"""
import argparse
import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import torch  # noqa: E402

import adapters  # noqa: E402
import cases  # noqa: E402
import fovea  # noqa: E402
import overhead  # noqa: E402
import report  # noqa: E402
import timing  # noqa: E402
from adapters.fovea_peer import BASE  # noqa: E402


def say(text):
    print(text, flush=True)


def short(error):
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:200] if lines else ''}"


class Machine:
    def __init__(self, options):
        self.device = options.device
        if self.device == "cuda":
            fovea.Context("cuda:0", compile="allowed").set_default()
            self.timer, self.cache = timing.CudaTimer(torch), torch.cuda.get_device_properties(0).L2_cache_size
        else:
            torch.set_num_threads(options.threads)
            fovea.Context("cpu", threads=options.threads).set_default()
            self.timer, self.cache = timing.CpuTimer(), 128 * 2**20

    def synchronize(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def facts(self, options):
        facts = {"device": self.device, "torch": torch.__version__, "fovea": fovea.__version__, "python": sys.version.split()[0],
                 "cache_bytes": self.cache, "command": " ".join(["bench/peers/compare.py", *options.arguments]),
                 "commit": options.commit, "versions": versions()}
        if self.device == "cuda":
            facts |= {"name": torch.cuda.get_device_name(), "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
        else:
            match = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
            facts |= {"name": match.group(1) if match else "CPU", "threads": options.threads,
                      "isa": fovea.default_context("cpu").info()["isa"]}
        return facts

    def roofs(self, rounds):
        """Copy (bytes read and written) and a product of two random matrices: medians, in this run."""
        if self.device == "cuda":
            size, n, kind = 2**30, 8192, torch.bfloat16
        else:
            size, n, kind = 2**28, 1024, torch.float32
        source, target = (torch.empty(size, dtype=torch.uint8, device=self.device).fill_(i) for i in (1, 2))
        a, b = (torch.randn(n, n, device=self.device, dtype=kind) for _ in "ab")
        c = torch.empty_like(a)
        samplers = {"copy": self.timer.sampler([lambda: target.copy_(source)])[0],
                    "product": self.timer.sampler([lambda: torch.mm(a, b, out=c)])[0]}
        taken = timing.interleave(samplers, rounds)
        return {"copy_gb_per_s": 2 * size / timing.median(taken["copy"]) * 1e-9, "product_type": "bf16" if kind == torch.bfloat16 else "f32",
                "product_tflop_per_s": 2 * n**3 / timing.median(taken["product"]) * 1e-12, "product_n": n}


@functools.cache
def versions():
    import importlib.metadata as metadata

    found = {}
    for name in ("flashinfer-python", "apache-tvm-ffi", "nvidia-cudnn-cu13", "triton", "numpy"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    return found


def measure(machine, case, peers, rounds):
    """name -> what became of this peer; and the number of sets."""
    sets = timing.number_of_sets(case.bytes, machine.cache)
    problem = cases.Problem(torch, case, machine.device, sets)
    results, calls, want = {}, {}, None
    for peer in peers:
        try:
            of_sets, how = peer.prepare(problem)
            out = of_sets[0]()
            machine.synchronize()
            out = out.detach().clone()
            of_sets[-1]()  # what another set leaves behind must not matter to the first
            again = of_sets[0]().detach()
            machine.synchronize()
        except cases.Skip as reason:
            results[peer.name] = {"skipped": str(reason)}
            continue
        except Exception as error:  # noqa: BLE001  reported in the row
            results[peer.name] = {"failed": short(error)}
            try:
                machine.synchronize()
            except RuntimeError:
                raise Broken(peer.name, case.name, short(error)) from error
            continue
        if want is None:
            if peer.name != BASE:
                results[peer.name] = {"failed": f"{BASE} gave nothing to compare with"}
                continue
            want = out.clone()
        errors = [cases.worst_row_error(torch, x, want) for x in (out, again)]
        results[peer.name] = {"kernel": how.split("\n")[0], "worst_row_error": max(errors), "bound": cases.BOUNDS[case.dtype]}
        if max(errors) <= cases.BOUNDS[case.dtype]:
            calls[peer.name] = of_sets
        else:
            results[peer.name]["mismatch"] = True
    samplers = {}
    for name, of_sets in calls.items():
        try:
            samplers[name], results[name]["timed"] = machine.timer.sampler(of_sets)
        except Exception as error:  # noqa: BLE001
            results[name]["failed"] = short(error)
    for name, samples in timing.interleave(samplers, rounds).items():
        results[name] |= {"seconds": timing.median(samples), "best": min(samples), "samples": len(samples)}
    return results, sets


def line(row):
    """A row as it is printed while the program runs."""
    base, cells = row["results"].get(BASE, {}).get("seconds"), []
    for name, result in row["results"].items():
        if "seconds" in result:
            against = f" ({result['seconds'] / base:.2f}x of {BASE}'s time)" if base and name != BASE else ""
            cells.append(f"{name} {result['seconds'] * 1e6:.1f} us, {report.cell(row, name)} {report.unit(row)[0]}{against}")
        elif "mismatch" in result:
            cells.append(f"{name} DIFFERS: row error {result['worst_row_error']:.3g}")
        else:
            cells.append(f"{name}: {result.get('failed') or result.get('skipped')}")
    return f"{row['name']}\n    " + "\n    ".join(cells)


class Broken(Exception):
    """A peer left the device without use for this process."""


class Output:
    def __init__(self, path, content):
        self.path, self.content = path, content

    def write(self):
        if self.path:
            part = self.path.with_suffix(".part")
            part.write_text(json.dumps(self.content, indent=1) + "\n")
            part.replace(self.path)


def run(machine, output, wanted, peers, rounds):
    for case in wanted:
        results, sets = measure(machine, case, peers, rounds)
        row = {**vars(case), "name": case.name, "flops": case.flops, "bytes": case.bytes, "sets": sets, "results": results}
        rows = output.content["rows"] = [r for r in output.content["rows"] if r["name"] != case.name]
        rows.append(row)
        output.write()
        say(line(row))
        if machine.device == "cuda":
            torch.cuda.empty_cache()


def without(broken, options, compiler, deadline):
    """Starts this program anew without the peer that broke the device; the rows so far stay until they are measured again."""
    name, case, error = broken.args
    say(f"{name} broke the device at {case}: {error}; it is left out from here")
    if compiler and compiler.poll() is None:
        os.killpg(compiler.pid, signal.SIGKILL)
    words = [*sys.argv, "--without", name, "--compile-seconds", str(max(0, round(deadline - time.time())))]
    os.execv(sys.executable, [sys.executable, *words])


def start_compiler():
    env = {**os.environ, "PYTHONPATH": f"{HERE}:{os.environ.get('PYTHONPATH', '')}"}
    return subprocess.Popen([sys.executable, HERE / "adapters" / "flashinfer_peer.py"], env=env, start_new_session=True)


def wait(compiler, deadline):
    try:
        compiler.wait(max(0, deadline - time.time()))
    except subprocess.TimeoutExpired:
        say("FlashInfer: time is up, what is not compiled is left out")
        os.killpg(compiler.pid, signal.SIGKILL)
        compiler.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--only", default="", help="cases whose name matches this expression")
    parser.add_argument("--peers", default="", help="peers whose name matches this expression, beside Fovea")
    parser.add_argument("--rounds", type=int, default=11, help="samples of each peer")
    parser.add_argument("--threads", type=int, default=1, help="on the CPU")
    parser.add_argument("--commit", default="", help="of the package, where it is not this tree's")
    parser.add_argument("--compile-seconds", type=float, default=270, help="for FlashInfer's modules; 0: only what was compiled before")
    parser.add_argument("--without", action="append", default=[], metavar="PEER", help="leave this one out, and keep the rows of the JSON file")
    options = parser.parse_args()
    places = ("--json", "--commit")
    options.arguments = [word for before, word in zip([""] + sys.argv[1:], sys.argv[1:]) if word not in places and before not in places]
    if not options.commit:
        options.commit = subprocess.run(["git", "-C", HERE, "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()

    begin, machine = time.time(), Machine(options)
    peers, skipped = [], adapters.others()
    for peer in adapters.ADAPTERS:
        reason = peer.missing(machine.device)
        if reason is None and peer.name in options.without:
            reason = "broke the device, see the output of the run"
        if reason is None and not peer.name.startswith(BASE) and not re.search(options.peers, peer.name):
            reason = "not asked for"
        if reason:
            skipped[peer.name] = reason
        else:
            peers.append(peer)
    for name, reason in skipped.items():
        say(f"left out: {name}: {reason}")
    content = {"machine": machine.facts(options), "skipped": skipped, "roofs": [machine.roofs(options.rounds)], "rows": []}
    if options.without and options.json and options.json.exists():
        content["rows"] = json.loads(options.json.read_text())["rows"]
    output = Output(options.json, content)
    say(json.dumps(content["machine"]))
    say(json.dumps(content["roofs"][0]))
    wanted = [c for c in (cases.cuda_cases() if machine.device == "cuda" else cases.cpu_cases()) if re.search(options.only, c.name)]

    if machine.device == "cuda":
        content["overhead"] = overhead.measure(torch)
        output.write()
        say(json.dumps(content["overhead"]))
    flashinfer = [peer for peer in peers if peer.name.startswith("FlashInfer")]
    deadline, compiler = begin + options.compile_seconds, None
    try:
        if flashinfer and options.compile_seconds > 0:
            compiler = start_compiler()
            run(machine, output, wanted, [peer for peer in peers if peer not in flashinfer], max(3, options.rounds // 3))
            wait(compiler, deadline)
            say(f"-- all peers, after {time.time() - begin:.0f} s --")
        run(machine, output, wanted, peers, options.rounds)
    except Broken as broken:
        without(broken, options, compiler, deadline)
    content["roofs"].append(machine.roofs(options.rounds))
    content["machine"]["seconds"] = round(time.time() - begin)
    output.write()
    say(json.dumps(content["roofs"][1]))
    return 1 if any("mismatch" in r for row in content["rows"] for r in row["results"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
