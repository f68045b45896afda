#!/usr/bin/env bash
# Builds the runner: runner/build.sh [BUILD_FOLDER [CMAKE_ARGUMENT…]]. Without -Dexecutorch_DIR=… it takes the ExecuTorch
# package of $PYTHON (python3).
set -euo pipefail
source_folder="$(cd "$(dirname "$0")" && pwd)"
build_folder="${1:-$source_folder/build}"
arguments=("${@:2}")
if [[ "${arguments[*]}" != *-Dexecutorch_DIR=* ]]; then
  package="$("${PYTHON:-python3}" -c 'import importlib.util as u; s = u.find_spec("executorch"); print(s.submodule_search_locations[0] if s else "")')"
  [[ -n "$package" ]] || { echo "runner/build.sh: ${PYTHON:-python3} has no package executorch. Install it, or give -Dexecutorch_DIR=…" >&2; exit 1; }
  arguments+=("-Dexecutorch_DIR=$package/share/cmake")
fi
cmake -S "$source_folder" -B "$build_folder" "${arguments[@]}"
cmake --build "$build_folder" --config Release --parallel "$(getconf _NPROCESSORS_ONLN)"
