"""Backends: one file each; vendor packages are imported inside functions, and siblings never import each other."""
