"""Unit tests of the reports."""
