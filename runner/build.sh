#!/usr/bin/env bash
# Builds the runner: runner/build.sh [BUILD_FOLDER [CMAKE_ARGUMENT…]]. Without -Dexecutorch_DIR=… it takes the ExecuTorch
# package of $PYTHON (python3). CMake and Ninja are those beside $PYTHON, or else those on PATH; Make will do for Ninja.
set -euo pipefail
source_folder="$(cd "$(dirname "$0")" && pwd)"
build_folder="${1:-$source_folder/build}"
[[ $# -eq 0 ]] || shift
python="$(command -v "${PYTHON:-python3}" || echo "${PYTHON:-python3}")"
[[ ! -e "$python" ]] || python="$(cd "$(dirname "$python")" && pwd)/$(basename "$python")"

refuse() {
  echo "runner/build.sh: $1" >&2
  exit 1
}

program() {
  if [[ -x "${python%/*}/$1" ]]; then echo "${python%/*}/$1"; else command -v "$1"; fi
}

if [[ ! "$(uname)" =~ ^(MINGW|MSYS|CYGWIN) ]]; then  # there, CMake finds Visual Studio by itself
  compiler="${CXX:-c++}"
  if [[ ! "$* ${CMAKE_TOOLCHAIN_FILE:+-DCMAKE_TOOLCHAIN_FILE}" =~ (-DCMAKE_(CXX_COMPILER|TOOLCHAIN_FILE)|--preset) ]]; then
    command -v "${compiler%% *}" g++ clang++ >/dev/null ||
      refuse "there is no C++ compiler: apt install g++ (Debian, Ubuntu), xcode-select --install (macOS), or set CXX."
  fi
  generator="$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$build_folder/CMakeCache.txt" 2>/dev/null || true)"
  if [[ -z "${CMAKE_GENERATOR:-}" && ! " $*" =~ " -G" ]]; then
    if [[ "${generator:-Ninja}" == Ninja ]] && ninja="$(program ninja)"; then
      set -- -G Ninja "-DCMAKE_MAKE_PROGRAM=$ninja" "$@"
    elif [[ -z "$generator" ]]; then
      command -v make >/dev/null || refuse "there is neither ninja nor make: $python -m pip install ninja"
    fi
  fi
fi
cmake="$(program cmake)" || refuse "there is no cmake: $python -m pip install cmake"
if [[ "$*" != *-Dexecutorch_DIR=* ]]; then
  package="$("$python" -c 'import importlib.util as u; s = u.find_spec("executorch"); print(s.submodule_search_locations[0] if s else "")')"
  [[ -n "$package" ]] || refuse "$python has no package executorch. Install it, or give -Dexecutorch_DIR=…"
  set -- "-Dexecutorch_DIR=$package/share/cmake" "$@"
fi
"$cmake" -S "$source_folder" -B "$build_folder" "-DRUNNER_PYTHON=$python" "$@"
"$cmake" --build "$build_folder" --config Release --parallel "$(getconf _NPROCESSORS_ONLN)"
