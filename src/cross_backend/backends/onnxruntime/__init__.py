"""ONNX Runtime: one ``.onnx`` payload, and every execution provider as a target that runs it."""

from cross_backend.backends.onnxruntime._export import export_onnx

__all__ = ["export_onnx"]
