"""Unit tests of the wing `tune`."""
