"""Tune: the fastest of all backends, precisions, threads and batch sizes that stays within bounds; few measurements."""
