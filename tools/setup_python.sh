#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes .cache/python, a Python environment with what the package's build and tests need, from PyPI, and prints its Python.
# With --settings prints the settings of CMake that build the package; where there can be no environment, those that do not.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted="nanobind==3.1.0 nanobind-backend==1.0.0 numpy==2.4.6 pytest==9.2.0 ml-dtypes==0.7.0"
folder=$PWD/.cache/python

setup() {
  tools/install_packages.sh python >&2
  echo "Setting up .cache/python: $wanted" >&2
  rm -rf "$folder"
  # shellcheck disable=SC2086
  python3 -m venv "$folder" && "$folder/bin/pip" install --quiet --disable-pip-version-check $wanted >&2 &&
    echo "$wanted" >"$folder/complete"
}

if [ "$(cat "$folder/complete" 2>/dev/null)" != "$wanted" ] && ! setup; then
  [ "${1:-}" = --settings ] || exit 1
  echo "fovea: the Python package is left out of this build, for $folder could not be made" >&2
  echo "-DFOVEA_BUILD_PYTHON=OFF"
elif [ "${1:-}" = --settings ]; then
  echo "-DFOVEA_BUILD_PYTHON=ON -DPython_EXECUTABLE=$folder/bin/python"
else
  echo "$folder/bin/python"
fi
