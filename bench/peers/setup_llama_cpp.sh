#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds llama.cpp for this machine's CPU from the source package of llama-cpp-python on PyPI: the programs
# llama-perplexity, llama-tokenize and llama-bench, and the libraries of ggml. Nothing of the package is installed.
# Quick when it is there. The last line printed is the folder of the build; JOBS sets the number of compilers.
#
# The programs are those that users of llama.cpp run, so Fovea is compared with them and not with a program of ours over
# their library.
set -euo pipefail
cd "$(dirname "$0")/../.."

version=0.3.36
digest=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
folder=$PWD/.cache/llama_cpp-$version
build=$folder/build
targets=(llama-perplexity llama-tokenize llama-bench)

stop() {
  echo "fovea: $1" >&2
  exit 2
}

fetch() {
  local download
  download=$(mktemp -d -p .cache)
  trap 'rm -rf "$download"' RETURN
  echo "Fetching the source of llama-cpp-python $version (about 73 MB)" >&2
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: --dest "$download" \
    "llama-cpp-python==$version" >&2 || stop "could not fetch llama-cpp-python $version from PyPI"
  echo "$digest  $download/llama_cpp_python-$version.tar.gz" | sha256sum --check --quiet >&2 ||
    stop "the source of llama-cpp-python $version is not the one that was measured: not used"
  mkdir "$download/source"
  tar -xzf "$download/llama_cpp_python-$version.tar.gz" -C "$download/source" --strip-components=3 \
    "llama_cpp_python-$version/vendor/llama.cpp"
  mkdir -p "$folder"
  mv "$download/source" "$folder/source"
}

mkdir -p .cache
"$PWD/tools/install_packages.sh" build model
[ -d "$folder/source" ] || fetch
if [ ! -f "$build/complete" ]; then
  echo "Building llama.cpp in $build" >&2
  off=()
  for part in LLAMA_BUILD_{TESTS,EXAMPLES,SERVER,APP,UI} LLAMA_USE_PREBUILT_UI LLAMA_OPENSSL GGML_{CUDA,VULKAN,BLAS}; do
    off+=("-D$part=OFF")
  done
  cmake -S "$folder/source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DGGML_NATIVE=ON \
    -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "${off[@]}" \
    >"$folder/build.log" 2>&1 || stop "could not configure llama.cpp, see $folder/build.log"
  cmake --build "$build" -j "${JOBS:-$(nproc)}" --target "${targets[@]}" >>"$folder/build.log" 2>&1 ||
    stop "could not build llama.cpp, see $folder/build.log"
  touch "$build/complete"
fi
echo "$build"
