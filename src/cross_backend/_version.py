"""The version of this package, where nothing else has to be imported to read it."""

__version__ = "1.0.0"
