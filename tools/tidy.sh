#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs clang-tidy over the library and the apps: files changed since main with every check, or all files (--all) without
# the static analyser, which takes three times as long as everything else.
set -euo pipefail
cd "$(dirname "$0")/.."

# One instruction set: each kernel file is then read once.
build="build-dev"
[ -f "$build"/compile_commands.json ] || cmake --preset dev >/dev/null

checks=()
if [ "${1:-}" = --all ]; then
  checks=(--checks=-clang-analyzer-*)
  files=$(git ls-files -co --exclude-standard -- 'src/*.cpp' 'apps/*.cpp')
else
  base=$(git merge-base HEAD main 2>/dev/null || git rev-parse HEAD)
  files=$({ git diff --name-only --diff-filter=d "$base"; git ls-files -o --exclude-standard; } |
    grep -E '^(src|apps)/.*\.cpp$' | sort -u || true)
fi
[ -n "$files" ] || { echo "clang-tidy: no changed file"; exit 0; }
echo "clang-tidy: $(wc -w <<<"$files") files"
xargs -P "$(nproc)" -n 1 \
  clang-tidy --quiet "${checks[@]}" -p "$build" <<<"$files" 2> >(grep -v 'warnings generated\|Suppressed\|Use -header-filter' >&2)
