#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Uses Fovea as an outside project would: run.py STEP BUILD_DIR WORK_DIR [CMAKE_SETTING...].

Steps:  install        installs BUILD_DIR's library as it is, and again built the other way (static or shared)
        find_package   builds and runs the consumer against both
        pkg_config     the same without CMake
        add_subdirectory   builds Fovea inside the consumer
        symbols        the shared library exports fovea_* and nothing else
"""
import os
import pathlib
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
CONSUMER = SOURCE / "tests" / "install" / "consumer"
KINDS = ("static", "shared")


def run(*command, **options):
    command = [str(word) for word in command]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{result.stdout}\nended with {result.returncode}")
    return result.stdout


def cmake(source, build, *settings):
    run("cmake", "-G", "Ninja", "-S", source, "-B", build, *settings)
    run("cmake", "--build", build)


def kind_of(folder):
    return "shared" if list(folder.rglob("libfovea.so")) else "static"


def install(build, work, settings):
    for kind in KINDS:
        shutil.rmtree(work / kind, ignore_errors=True)
    kind = kind_of(build / "src")
    run("cmake", "--install", build, "--prefix", work / kind)
    other = "static" if kind == "shared" else "shared"
    switches = [f"-DBUILD_SHARED_LIBS={'ON' if other == 'shared' else 'OFF'}", "-DFOVEA_BUILD_APPS=OFF", "-DFOVEA_BUILD_TESTS=OFF"]
    cmake(SOURCE, work / "build-other", *switches, *settings)
    run("cmake", "--install", work / "build-other", "--prefix", work / other)
    for kind in KINDS:
        if kind_of(work / kind) != kind:
            sys.exit(f"{work / kind} holds no {kind} library")


def find_package(build, work, settings):
    for kind in KINDS:
        outside = work / f"find-{kind}"
        cmake(CONSUMER, outside, f"-DCMAKE_PREFIX_PATH={work / kind}", *settings)
        for program in ("from_c", "from_cpp"):
            print(kind, run(outside / program).strip())


def pkg_config(build, work, settings):
    for kind in KINDS:
        folder = next((work / kind).rglob("pkgconfig"))
        environment = dict(os.environ, PKG_CONFIG_PATH=str(folder), LD_LIBRARY_PATH=str(folder.parent))
        flags = run("pkg-config", "--cflags", "--libs", "fovea", env=environment).split()
        for compiler, language in (("gcc", "c"), ("g++", "cpp")):
            program = work / f"pkg-{kind}-{language}"
            standard = {"c": "-std=c11", "cpp": "-std=c++20"}[language]
            run(compiler, standard, CONSUMER / f"main.{language}", *flags, "-o", program)
            print(kind, run(program, env=environment).strip())


def add_subdirectory(build, work, settings):
    inside = work / "inside"
    cmake(CONSUMER, inside, f"-DFOVEA_SOURCE_TREE={SOURCE}", *settings)
    for program in ("from_c", "from_cpp"):
        print(run(inside / program).strip())


def symbols(build, work, settings):
    library = next((work / "shared").rglob("libfovea.so"))
    names = [line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()]
    foreign = [name for name in names if not name.startswith("fovea_")]
    if foreign or not names:
        sys.exit(f"{library} exports {len(names)} symbols; these do not start with fovea_: {foreign}")
    print(f"{len(names)} symbols, all fovea_*")


if __name__ == "__main__":
    steps = {step.__name__: step for step in (install, find_package, pkg_config, add_subdirectory, symbols)}
    steps[sys.argv[1]](pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), sys.argv[4:])
