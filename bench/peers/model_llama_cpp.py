#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast Fovea and llama.cpp read a prompt and generate, with the same GGUF file and the same number of threads.

  bench/peers/model_llama_cpp.py                          SmolLM2-135M on 1 and 2 threads
  bench/peers/model_llama_cpp.py --model M --threads 8 --prefill 4096 --context 0,16384 --rounds 3

Each round runs every program once, one after the other: `fovea bench model`, and `llama-bench` of setup_llama_cpp.sh without
and with its flash attention, of which the faster one counts in each row. All read random tokens, which costs what other
tokens cost; each does an untimed run of a row first. Prefill reads the tokens at once into an empty cache, decode generates after
so many tokens. Tokens per second are the best of the rounds, with the median behind.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
KV = ["f32", "f16", "bf16"]  # formats that both have


def run(*command):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"fovea: {command[0]} ended with {result.returncode}: {result.stderr.strip()[-500:]}")
    return result.stdout


def numbers(text):
    return [int(word) for word in text.split(",")]


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fovea", type=pathlib.Path, default=ROOT / "build-release" / "bin" / "fovea", help="the fovea command")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--threads", type=numbers, default=[1, 2], help="by commas, as the other numbers")
    parser.add_argument("--prefill", type=numbers, default=[512, 2048], help="tokens of prompts")
    parser.add_argument("--context", type=numbers, default=[128, 1024], help="tokens before those that are generated")
    parser.add_argument("--decode", type=int, default=64, help="tokens to generate")
    parser.add_argument("--kv", default="f16", choices=KV, help="format of the cache")
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


def rows_of(o):
    return [("prefill", n) for n in o.prefill] + [("decode", n) for n in o.context]


def fovea(o, threads):
    document = json.loads(run(o.fovea, "bench", "model", "--json", "--model", o.model, "--threads", threads, "--samples", 1,
                              "--prefill", ",".join(map(str, o.prefill)), "--context", ",".join(map(str, o.context)),
                              "--decode", o.decode, "--kv", o.kv))
    rates = {}
    for phase in document["phases"]:
        key = phase["phase"], phase["tokens"] if phase["phase"] == "prefill" else phase["context"]
        rates[key] = phase["tokens_per_s"]["best"]
    return rates


def llama(o, program, threads, flash):
    common = [program, "-m", o.model, "-t", threads, "-fa", flash, "-ctk", o.kv, "-ctv", o.kv, "-r", 1, "-o", "json"]
    prefill = run(*common, "-n", 0, "-p", ",".join(map(str, o.prefill)))
    decode = run(*common, "-p", 0, "-n", o.decode, "-d", ",".join(map(str, o.context)))
    rates = {("prefill", test["n_prompt"]): test["avg_ts"] for test in json.loads(prefill)}
    return rates | {("decode", test["n_depth"]): test["avg_ts"] for test in json.loads(decode)}


def compiler_flags(build, source):
    """The flags that matter of the compiler's command for a source file."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if entry["file"].endswith(source):
            return " ".join(re.findall(r"(?<= )-(?:O\d|march=\S+|m\S+|f\S+|DNDEBUG|DGGML_\S+)", entry["command"]))
    return "unknown flags"


def print_facts(o, build):
    cpu = re.search(r"Model name:\s*(.*)", run("lscpu"))
    commit = run("git", "-C", HERE, "describe", "--always", "--dirty").strip()
    isa = json.loads(run(o.fovea, "info", "--json"))["devices"][0]["isa"]
    print(f"{cpu[1] if cpu else 'unknown CPU'}, {os.cpu_count()} cores; {o.model.name}, cache of {o.kv}, "
          f"{o.rounds} rounds, decode of {o.decode} tokens")
    ours = compiler_flags(o.fovea.resolve().parents[1], "src/backend/cpu/kernels/matmul.cpp")
    print(f"Fovea {commit}: {ours}, kernels for {isa}")
    print(f"llama.cpp of llama-cpp-python 0.3.36: {compiler_flags(build, 'ggml-cpu/ggml-cpu.c')}")


def main():
    o = options()
    build = pathlib.Path(run(HERE / "setup_llama_cpp.sh").split("\n")[-2])
    print_facts(o, build)
    print("| threads | phase | Fovea, tokens/s | llama.cpp, tokens/s | ratio |\n|---|---|---|---|---|")
    for threads in o.threads:
        taken = [[], [], []]  # Fovea, llama.cpp without and with flash attention
        for _ in range(o.rounds):
            taken[0].append(fovea(o, threads))
            for flash in (0, 1):
                taken[1 + flash].append(llama(o, build / "bin" / "llama-bench", threads, flash))
        for phase, count in rows_of(o):
            rates = [[one[phase, count] for one in program] for program in taken]
            ours, theirs = rates[0], max(rates[1:], key=max)
            name = f"prefill {count}" if phase == "prefill" else f"decode after {count}"
            cells = [f"{max(r):.1f} ({statistics.median(r):.1f})" for r in (ours, theirs)]
            print(f"| {threads} | {name} | {cells[0]} | {cells[1]} | {max(ours) / max(theirs):.2f} |", flush=True)


if __name__ == "__main__":
    main()
