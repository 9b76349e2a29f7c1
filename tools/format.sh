#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Formats every C, C++ and CUDA file of the tree; with --check only says which ones differ.
set -euo pipefail
cd "$(dirname "$0")/.."

mode=(-i)
[ "${1:-}" = --check ] && mode=(--dry-run --Werror)
git ls-files -z -co --exclude-standard -- '*.cpp' '*.hpp' '*.h' '*.c' '*.cuh' |
  xargs -0 -r -n 32 clang-format "${mode[@]}"
