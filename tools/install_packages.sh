#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing of the packages of tools/packages.txt: tools/install_packages.sh GROUP...
# Says nothing when all is there. Where it cannot install, it says in one line what to type.
set -euo pipefail

list=$(dirname "$0")/packages.txt
mapfile -t wanted < <(awk -v groups=" $* " '!/^#/ && index(groups, " " $1 " ") {print $2}' "$list" | sort -u)
[ ${#wanted[@]} -gt 0 ] || { echo "fovea: $list has no packages for: $*" >&2; exit 2; }

if ! command -v dpkg-query >/dev/null; then
  exit 0 # Not Debian: CMake names what it does not find.
fi
# dpkg-query fails where a package is unknown to it, and still lists the others.
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null || true)
mapfile -t missing < <(comm -23 <(printf '%s\n' "${wanted[@]}") <(sed -n 's/^installed //p' <<<"$installed" | sort -u))
[ ${#missing[@]} -gt 0 ] || exit 0

by_hand="apt-get install -y --no-install-recommends ${missing[*]}"
if [ "$(id -u)" = 0 ]; then
  root=(env)
elif sudo -n true 2>/dev/null; then
  root=(sudo -n)
else
  echo "fovea: packages are missing and need root to install; type: sudo $by_hand" >&2
  exit 2
fi

echo "Installing: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt=("${root[@]}" DEBIAN_FRONTEND=noninteractive apt-get -y -q)
if ! { "${apt[@]}" update && "${apt[@]}" install --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  reason=$(grep -m1 -E '^(E|Err)' "$log" || tail -n1 "$log")
  echo "fovea: could not install the missing packages (${reason}); with a network, type: $by_hand" >&2
  exit 2
fi
