"""ONNX Runtime: one ``.onnx`` payload, and every execution provider as a target that runs it."""
