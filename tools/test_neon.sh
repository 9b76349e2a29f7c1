#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of a build for arm64 under qemu-user: tools/test_neon.sh build-neon/bin [PROGRAM...]; all if none is named.
# Left out: processes that start themselves again, which qemu does not emulate, and what emulation would make long: statistics, random
# calls by the thousand.
set -euo pipefail

bin=$1
programs=("${@:2}")
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
declare -A filters=(
  [test_base]='*' [test_shared]='*' [test_pool]='*' [test_plan]='*' [test_backend]='*'
  [test_api]='-*DeathTest*'
  [test_ops]='-*Distribution*'
  [test_conformance]='-AttentionFuzz.*'
)

run() { # PROGRAM FILTER
  local start=$SECONDS status=0
  qemu-aarch64 -L /usr/aarch64-linux-gnu "$bin/$1" --gtest_brief=1 --gtest_filter="$2" >"$logs/$1" 2>&1 || status=$?
  echo "$((SECONDS - start)) s  $1: $(grep -aE 'tests? from .* ran' "$logs/$1" | sed 's/^\[=*\] //' || true)"
  [ $status = 0 ] || { cat "$logs/$1"; return $status; }
}

failed=0
[ ${#programs[@]} -gt 0 ] || programs=(test_conformance test_ops test_backend test_api test_base test_shared test_pool test_plan)
for program in "${programs[@]}"; do
  [ -v "filters[$program]" ] || { echo "fovea: there is no $program for arm64: there are ${!filters[*]}" >&2; exit 2; }
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || failed=1; done
  run "$program" "${filters[$program]}" &
done
while [ -n "$(jobs -p)" ]; do
  wait -n || failed=1
  jobs >/dev/null
done
exit $failed
