"""Instruments, one a file, and the statistics that they share."""
