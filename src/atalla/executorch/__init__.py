"""Atalla inside ExecuTorch: which nodes the delegate takes, and the library that runs its blobs."""
