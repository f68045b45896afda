"""Packaging tests: what is imported, what is in the wheel, what the extras bring."""
