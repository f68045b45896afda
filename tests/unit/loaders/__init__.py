"""Loaders: files in five languages that open a bundle without this package."""
