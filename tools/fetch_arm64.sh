#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts Debian's arm64 packages that a cross build links against into .cache/arm64, beside the system and without root.
# Quick when they are there.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(libgtest-dev libhwy-dev libhwy1)
target=.cache/arm64
[ ! -e "$target/usr/lib/aarch64-linux-gnu/libhwy.so.1" ] || exit 0

state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
mkdir -p "$state"/{lists/partial,cache/archives/partial,debs,root}
touch "$state/status"
# apt with a state of its own, in which the only architecture is arm64.
apt=(apt-get -q -o Dir::State="$state" -o Dir::State::Lists="$state/lists" -o Dir::State::status="$state/status"
  -o Dir::Cache="$state/cache" -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=)
echo "Fetching for arm64: ${packages[*]}"
log=$state/log
if ! { "${apt[@]}" update && (cd "$state/debs" && "${apt[@]}" download "${packages[@]}"); } >"$log" 2>&1; then
  echo "fovea: could not fetch arm64 packages ($(grep -m1 -E '^(E|Err)' "$log" || tail -n1 "$log")); with a network, type: tools/fetch_arm64.sh" >&2
  exit 2
fi
for package in "$state"/debs/*.deb; do dpkg-deb -x "$package" "$state/root"; done
mkdir -p .cache
rm -rf "$target"
mv "$state/root" "$target"
