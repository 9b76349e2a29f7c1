#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Perplexity of a text by Fovea and by llama.cpp, with the same GGUF file and the same tokens.

  bench/peers/perplexity_llama_cpp.py                          SmolLM2-135M and the King James Bible of bible-kjv-text
  bench/peers/perplexity_llama_cpp.py --model M --text FILE --ctx 2048 --chunks 10 --kv f16,f32

llama.cpp comes from setup_llama_cpp.sh, the text from the Debian packages of the group "peers". Both programs print their
tokens first, and these must be equal. Fails where the perplexities differ by more than --within percent.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
KV = ["f32", "f16", "bf16"]  # formats that both have


def run(*command):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"fovea: {command[0]} ended with {result.returncode}: {result.stderr.strip()[-500:]}")
    return result.stdout, result.stderr


def bible():
    """The text of the King James Bible, a verse on each line."""
    path = ROOT / ".cache" / "kjv.txt"
    if not path.exists():
        run(ROOT / "tools" / "install_packages.sh", "peers")
        text, _ = run("bible", "-f", "gen1:1-rev22:21")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return path


def cpu_name():
    words = re.search(r"Model name:\s*(.*)", run("lscpu")[0])
    return words[1] if words else "unknown CPU"


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fovea", default=ROOT / "build-release" / "bin" / "fovea", help="the fovea command")
    parser.add_argument("--model", default=ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--text", help="a UTF-8 text; the King James Bible where not given")
    parser.add_argument("--ctx", type=int, default=512)
    parser.add_argument("--chunks", type=int, default=40)
    parser.add_argument("--kv", default="f16", help=f"formats of the cache by commas: {', '.join(KV)}")
    parser.add_argument("--threads", type=int, default=0, help="0: one per core")
    parser.add_argument("--within", type=float, default=0.5, help="percent that the perplexities may differ by")
    o = parser.parse_args()
    o.kv = o.kv.split(",")
    if not set(o.kv) <= set(KV):
        parser.error(f"--kv is {','.join(o.kv)}: llama.cpp and Fovea both have {', '.join(KV)}")
    return o


def check_tokens(o, text, llama):
    theirs = json.loads(run(llama / "llama-tokenize", "-m", o.model, "-f", text, "--ids", "--no-bos", "--no-parse-special")[0])
    ours = json.loads(run(o.fovea, "tokenize", "--model", o.model, "--text", text)[0])
    if ours != theirs:
        at = next((i for i, pair in enumerate(zip(ours, theirs)) if pair[0] != pair[1]), min(len(ours), len(theirs)))
        sys.exit(f"fovea: tokens differ from number {at} on: {ours[at:at + 5]} here, {theirs[at:at + 5]} in llama.cpp")
    return len(ours)


def llama_perplexity(o, text, llama, kv):
    threads = ["-t", o.threads] if o.threads else []
    out, err = run(llama / "llama-perplexity", "-m", o.model, "-f", text, "-c", o.ctx, "-b", o.ctx, "--chunks", o.chunks,
                   "-ctk", kv, "-ctv", kv, *threads)
    found = re.search(r"Final estimate: PPL = ([\d.]+) \+/- ([\d.]+)", out + err)
    if not found:
        sys.exit(f"fovea: llama-perplexity printed no estimate: {err.strip()[-500:]}")
    return float(found[1])


def main():
    o = options()
    llama = pathlib.Path(run(HERE / "setup_llama_cpp.sh")[0].split("\n")[-2]) / "bin"
    text = o.text or bible()
    tokens = check_tokens(o, text, llama)
    measured = json.loads(run(o.fovea, "perplexity", "--model", o.model, "--text", text, "--kv", ",".join(o.kv), "--json",
                              "--ctx", o.ctx, "--chunks", o.chunks, "--threads", o.threads)[0])
    print(f"{cpu_name()}, {measured['isa']}, {measured['threads']} threads; {pathlib.Path(o.model).name}; {text}: {tokens} tokens, "
          f"equal in both; {measured['scored']} scored of {measured['chunks']['count']} chunks of {o.ctx}")
    print("| kv | Fovea | llama.cpp | difference |\n|---|---|---|---|")
    worst = 0.0
    for row in measured["formats"]:
        theirs = llama_perplexity(o, text, llama, row["kv"])
        difference = 100 * (row["perplexity"] / theirs - 1)
        worst = max(worst, abs(difference))
        print(f"| {row['kv']} | {row['perplexity']:.4f} +- {row['perplexity_error']:.4f} | {theirs:.4f} | {difference:+.3f} % |", flush=True)
    if worst > o.within:
        sys.exit(f"fovea: the perplexities differ by {worst:.3f} %, more than {o.within} %")


if __name__ == "__main__":
    main()
