"""Tests of what only some backends do; what all do is in tests/conformance."""
