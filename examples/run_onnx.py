"""Run an exported ONNX file with plain ONNX Runtime on any execution provider and check it against the sample.

    python examples/run_onnx.py models/resnet50_onnxruntime.onnx models/resnet50_sample.npz CUDAExecutionProvider

Shows that an artifact needs nothing of cross-backend where it is shipped: NumPy and one ONNX Runtime package.
"""

from __future__ import annotations

import sys

import numpy as np
import onnxruntime


def main(model: str, sample: str, provider: str) -> int:
    """Give 0 if the provider took the model and its outputs are right."""
    settings = onnxruntime.SessionOptions()
    settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")  # this provider or an error
    session = onnxruntime.InferenceSession(model, settings, providers=[provider])
    with np.load(sample) as tensors:
        feed = {value.name: tensors[f"input_{i}"] for i, value in enumerate(session.get_inputs())}
        outputs = session.run(None, feed)
        worst = max(
            float(np.abs(got - tensors[f"expected_{i}"]).max() / np.abs(tensors[f"expected_{i}"]).max())
            for i, got in enumerate(outputs)
        )
    print(f"{provider}: largest error {worst:.1e} of the largest output")
    return 0 if worst < 2e-2 else 1


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
