"""Mychip: an accelerator's compiler, its blobs, what runs them, and its doors to cross-backend and ExecuTorch."""

__version__ = "0.1.0"
