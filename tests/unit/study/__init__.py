"""Tests of studies: the specification, study files, estimates and diffs."""
