"""Unit tests of the wing `localize`."""
