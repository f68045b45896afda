#!/usr/bin/env bash
# Tries torch's targets on an NVIDIA GPU, without a network; more than ten minutes where a load takes 5 to 30 s, as on an
# H200 with torch 2.11:
#
#   tests/gpu/check.sh [FOLDER]    with PyTorch for CUDA in $PYTHON (default: python3); results go to FOLDER
#
# Fails if a row is not verified and measured, or lacks the GPU's memory, energy, placement or profile.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
results=$(mkdir -p "${1:-gpu-check}" && cd "${1:-gpu-check}" && pwd) || exit 1
python=${PYTHON:-python3}
export PYTHONPATH="$here/../../src${PYTHONPATH:+:$PYTHONPATH}"
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader ||
  { echo "check.sh: no NVIDIA GPU is here (nvidia-smi lists none)" >&2; exit 1; }
"$python" -m cross_backend study run "$here/study.yaml" --output-dir "$results" --db "$results/gpu.db" \
  --output "$results/gpu.md" --json >"$results/gpu.json"
status=0
"$python" -m cross_backend export mobilenet_v3_small --backends 'torch?device=cuda' --output-dir "$results/artifacts" &&
  "$python" -m cross_backend run "$results"/artifacts/*.pt2 --profile --num-runs 20 || status=1
"$python" "$here/verdict.py" "$results/gpu.json" || status=1
exit $status
