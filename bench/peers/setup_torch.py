#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs PyTorch from PyPI into .cache/, for its CPU kernels alone; prints the Python that has it.

The only PyTorch on PyPI for Linux is the one for CUDA, whose libraries are some gigabytes more. None of them is called on
the CPU, but the loader asks for them. So they stay away, and so does PyTorch's own CUDA library: in their place stand
libraries that define the same symbols and do nothing.
"""
import fcntl
import pathlib
import re
import subprocess
import sys

VERSION = "2.15.0"
PURE = ["filelock", "typing-extensions", "sympy", "mpmath", "networkx", "jinja2", "fsspec", "setuptools"]
CUDA_PARTS = ["libtorch_cuda.so", "libtorch_cuda_linalg.so", "libtorch_nvshmem.so"]

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".cache" / f"torch-{VERSION}"
PYTHON = FOLDER / "bin" / "python"


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def install():
    subprocess.run([sys.executable, "-m", "venv", FOLDER], check=True, stdout=sys.stderr)
    pip = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "--no-cache-dir", f"torch=={VERSION}"], check=True, stdout=sys.stderr)
    subprocess.run([*pip, *PURE], check=True, stdout=sys.stderr)


def symbols(library):
    """(defined, undefined): sets of (name, version or '')."""
    defined, undefined = set(), set()
    for line in output("readelf", "--dyn-syms", "--wide", str(library)).splitlines():
        parts = line.split()
        if len(parts) < 8 or parts[4] not in ("GLOBAL", "WEAK"):
            continue
        name, _, version = parts[7].partition("@")
        if parts[6] != "UND":
            defined.add(name)
        elif parts[4] == "GLOBAL":
            undefined.add((name, version.lstrip("@")))
    return defined, undefined


def definition(name):
    """In assembler: functions return the address of zeros, classes have a name and no parent, their tables are zeros."""
    if name.startswith("_ZTI"):
        body = f'.data; .quad _ZTVN10__cxxabiv117__class_type_infoE + 16, 1f; 1: .asciz "{name[4:]}"; .align 8'
        return body.replace("; ", f'\n.globl "{name}"\n"{name}": ', 1)
    section, body = (".data", ".zero 256") if name.startswith("_ZT") else (".text", "lea zeros(%rip), %rax; ret")
    return f'{section}\n.globl "{name}"\n"{name}": {body}'


def stub(path, names_of_version):
    text, versions = [".bss\nzeros: .zero 65536"], []
    for version, names in sorted(names_of_version.items()):
        text += [definition(name) for name in sorted(names)]
        if version:
            versions.append(f"{version} {{ global: {'; '.join(sorted(names))}; }};")
    source, script = path.with_suffix(".s"), path.with_suffix(".map")
    source.write_text("\n".join(text) + '\n.section .note.GNU-stack,"",@progbits\n')
    script.write_text("\n".join(versions))
    command = ["gcc", "-shared", "-nostdlib", f"-Wl,-soname,{path.name}", "-o", path, source]
    if versions:
        command.append(f"-Wl,--version-script={script}")
    subprocess.run(command, check=True)
    source.unlink()
    script.unlink()


def leave_out_cuda(folder):
    for name in CUDA_PARTS:
        (folder / name).unlink(missing_ok=True)
    parts = sorted(p for p in folder.iterdir() if re.search(r"\.so(\.\d+)*$", p.name))
    present, stubs = {PYTHON.resolve(), *parts}, {CUDA_PARTS[0]: {}}
    for part in [PYTHON.resolve(), *parts]:
        for name, path in re.findall(r"(\S+) => (.*?)(?: \(0x.*)?\n", output("ldd", str(part))):
            if re.match(r"lib(cu|nv|nccl)", name):  # whether or not this machine happens to have it
                stubs.setdefault(name, {})
            elif path != "not found":
                present.add(pathlib.Path(path))
    defined, wanted = set(), set()
    for library in present:
        own, undefined = symbols(library)
        defined |= own
        wanted |= undefined if library in parts else set()
    for name, version in wanted:
        # A version of these libraries is named after the file; what has none is in PyTorch's own.
        library = version if version in stubs else CUDA_PARTS[0] if not version and name not in defined else None
        if library:
            stubs[library].setdefault(version, set()).add(name)
    for name, names_of_version in stubs.items():
        stub(folder / name, names_of_version)


def edit(file, line, to):
    text = file.read_text()
    if text.count(line) != 1:
        sys.exit(f"fovea: {file} is not the one that was expected")
    file.write_text(text.replace(line, to))


def leave_out_callers(package):
    """What would call those libraries while PyTorch is imported."""
    # torch.distributed is absent where the module has not these functions.
    functions = ("_c10d_init", "_rpc_init", "_dist_autograd_init")
    line = "from torch import _C as _C\n"
    edit(package / "__init__.py", line, line + f"for _name in {functions}:\n    delattr(_C, _name)\n")
    # Kernels in Python that take the place of CUDA's.
    edit(package / "_native" / "__init__.py", "    registry._register_all_overrides()\n", "    pass\n")


def main():
    complete = FOLDER / "complete"
    FOLDER.parent.mkdir(exist_ok=True)
    lock = open(f"{FOLDER}.lock", "w")  # of two that install at once the other waits
    fcntl.flock(lock, fcntl.LOCK_EX)
    if not complete.exists():
        print(f"Installing PyTorch {VERSION} in {FOLDER} (540 MB to fetch)", file=sys.stderr)
        install()
        package = next(FOLDER.glob("lib/python*/site-packages/torch"))
        leave_out_cuda(package / "lib")
        leave_out_callers(package)
        subprocess.run([PYTHON, "-c", "import torch; torch.ones(4, 4) @ torch.ones(4, 4)"], check=True, stdout=sys.stderr)
        complete.touch()
    print(PYTHON)


if __name__ == "__main__":
    main()
