"""Bench: where an artifact is opened, verified and measured; the seam between who measures and what is measured."""
