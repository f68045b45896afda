"""The tests: unit tests that mirror src, one conformance suite for every backend, end-to-end and packaging tests."""
