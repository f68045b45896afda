"""Instruments: what is measured of one target alone, beside its latency among the others; one a file."""
