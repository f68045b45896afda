"""Faults that several tests make: a lock that another program holds."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator

import psycopg

from cross_backend.store import StoredStudy

Begin = Callable[..., StoredStudy]


@contextlib.contextmanager
def locked(where: str) -> Iterator[None]:
    """Hold the lock that writers need, as another program may."""
    if "://" in where:
        with psycopg.connect(where) as connection:
            connection.execute("LOCK TABLE cross_backend.records IN ACCESS EXCLUSIVE MODE")
            yield
        return
    connection = sqlite3.connect(where, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.close()
