"""Lowering: a captured program becomes an artifact in the cache, in the process that has the compilers."""
