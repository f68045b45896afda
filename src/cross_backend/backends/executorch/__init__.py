"""Backends of ExecuTorch: one file a delegate; what a delegate of another package derives from has its name here."""

from cross_backend.backends.executorch._pte import ExecuTorchBackend, PteSession

__all__ = ["ExecuTorchBackend", "PteSession"]
