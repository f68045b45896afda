"""Claims: at most one process runs a study; the system frees the claim of a process that was killed."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from filelock import FileLock, Timeout
from sqlalchemy import Connection, Engine, func, select, text
from sqlalchemy.exc import SQLAlchemyError

from cross_backend.errors import StoreError
from cross_backend.store.database import Database

CLAIM_CLASS = 0x78_62_63_6C
"""First key of PostgreSQL's advisory locks on studies; the second is the study's number."""

NOTICE_S = 1.0
"""How long a server may take to notice that the process on the other side was killed, seconds."""


def claim(place: Database, engine: Engine, study_id: int) -> Claim | None:
    """Claim a study; None where another process has it.

    Raises:
        OSError, SQLAlchemyError: neither can be found out.
    """
    found = FileClaim(place.path, study_id) if place.path else SessionClaim(engine, study_id)
    return found if found.acquire() else None


class FileClaim:
    """A lock on a file beside the database, which the operating system frees with its process."""

    def __init__(self, database: Path, study_id: int) -> None:
        self._path = database.with_name(f"{database.name}.study-{study_id}.lock")
        self._lock = FileLock(self._path, timeout=0, thread_local=False)

    def acquire(self) -> bool:
        """Return whether the study is this process's now."""
        try:
            self._lock.acquire()
        except Timeout:
            return False
        return True

    def renew(self) -> None:
        """Do nothing: the operating system takes no lock back."""

    def release(self, *, for_good: bool = False) -> None:
        """Release it; for good where nobody can want it again, as the study is finished."""
        self._lock.release()
        if for_good:  # else another process could hold a lock on the file that this one deletes
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)


class SessionClaim:
    """An advisory lock of PostgreSQL, which the server frees with the session.

    A pooler that hands sessions out by transaction (PgBouncer can) would break it.
    """

    def __init__(self, engine: Engine, study_id: int) -> None:
        self._engine = engine
        self._study_id = study_id
        self._session: Connection | None = None

    def acquire(self) -> bool:
        """Return whether the study is this process's now."""
        deadline = time.monotonic() + NOTICE_S
        session = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        try:
            while not session.execute(select(func.pg_try_advisory_lock(CLAIM_CLASS, self._study_id))).scalar():
                if time.monotonic() > deadline:
                    session.close()
                    return False
                time.sleep(0.05)
        except BaseException:
            session.close()
            raise
        self._session = session
        return True

    def renew(self) -> None:
        """Ask the session for a sign of life; where it was cut, claim again in a new one.

        Raises:
            StoreError: another process has it now.
        """
        try:
            if self._session is not None:
                self._session.execute(text("SELECT 1"))
                return
        except SQLAlchemyError:
            self.release()
        if not self.acquire():
            raise StoreError(
                f"another process took study {self._study_id} over while the connection was cut; wait for it or end it."
            )

    def release(self, *, for_good: bool = False) -> None:  # noqa: ARG002  the lock has no file
        """Release it."""
        if self._session is not None:
            session, self._session = self._session, None
            session.invalidate()  # the pool would keep the session, and so the lock
            session.close()


Claim = FileClaim | SessionClaim
"""One study, claimed by this process."""
