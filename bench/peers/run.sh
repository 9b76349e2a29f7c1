#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD_FOLDER [options of compare.py]: compare.py with the package of that build, then docs/peers.md of its results.
# Takes python3 where it has PyTorch, else makes a Python with PyTorch's CPU kernels; what is missing comes from PyPI into .cache/.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "$1")

python=python3
python3 -c "import torch" 2>/dev/null || python=$(bench/peers/setup_torch.py)
device=$("$python" -W ignore -c "import torch; print('cuda' if torch.cuda.is_available() else 'cpu')")
site=$PWD/.cache/peers-$("$python" -c "import sys; print(f'{sys.version_info[0]}.{sys.version_info[1]}')")
export PYTHONPATH=$build/python:$site

need() { # MODULE PIP_WORDS...
  "$python" -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$1') is None)" ||
    "$python" -m pip install --quiet --disable-pip-version-check --target "$site" "${@:2}"
}
need numpy numpy==2.4.6
need nanobind_backend nanobind-backend==1.0.0
need matplotlib matplotlib==3.10.8
if [ "$device" = cuda ]; then
  # FlashInfer names gigabytes of packages that its attention never imports.
  need flashinfer --no-deps flashinfer-python==0.7.2.post1
  need tvm_ffi --no-deps apache-tvm-ffi==0.1.15.post2
  for module in click einops filelock jinja2 ninja packaging requests tabulate tqdm; do need $module $module; done
  need pynvml nvidia-ml-py
fi
mkdir -p results
"$python" -W ignore bench/peers/compare.py --json "$PWD/results/peers-$device.json" "${@:2}"
"$python" bench/peers/report.py results/peers-*.json
