"""Fuzzing: random programs, run by eager torch and by every executor of blobs, compared, and made small."""
