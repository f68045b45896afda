"""Comparison: one workload on many targets, each in a process of its own, measured interleaved, ranked."""
