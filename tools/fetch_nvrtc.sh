#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fetches NVRTC 12.9, the last one that compiles for Volta (sm_70), from PyPI into .cache/nvrtc-12. Quick when it is there.
set -euo pipefail
cd "$(dirname "$0")/.."

[ ! -f .cache/nvrtc-12/nvidia/cuda_nvrtc/lib/libnvrtc.so.12 ] || exit 0
python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: --upgrade \
  --target .cache/nvrtc-12 nvidia-cuda-nvrtc-cu12==12.9.86
