"""Unit tests; they mirror src/cross_backend."""
