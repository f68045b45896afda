"""Unit tests of the instruments and their statistics."""
