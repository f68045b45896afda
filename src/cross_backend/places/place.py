"""Place: where programs are started and files are put, on this machine or another."""

from __future__ import annotations

import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from cross_backend.errors import PlaceLostError
from cross_backend.places.condition import Condition

LEASE_S = 30.0
"""A program there that hears nothing from here for so long ends itself."""
SETTLE_S = 1.0
"""Longest wait for a connection's end after that of a program."""
BEAT_S = 5.0
"""Seconds between two signs of life from here."""


class Place(ABC):
    """Another machine; use it in ``with``.

    Every method may raise PlaceError: the machine cannot be reached, or refuses.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        """As the user wrote it."""
        self.pushed_bytes = 0
        """Of all files that were copied there."""

    @property
    @abstractmethod
    def scratch(self) -> str:
        """Folder there for what programs write; deleted at the end."""

    @property
    @abstractmethod
    def facts(self) -> Mapping[str, str]:
        """What the place says of itself, by key: ``system``, ``architecture``, ``free_kib``."""

    @abstractmethod
    def start(
        self, log: Path, command: Sequence[str], variables: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a program there.

        Args:
            log: file here that receives what the program writes to its standard error.
            command: program and arguments; paths are those there.
            variables: further environment variables.

        Returns:
            A process here whose standard input and output are the program's; where it ends, the program does.
        """

    @abstractmethod
    def push(self, files: Mapping[str, Path]) -> str:
        """Copy files there, those that are there already excepted, and return the folder there that holds them.

        Args:
            files: name in the folder, with slashes for subfolders → file here.
        """

    @abstractmethod
    def pull(self, there: str, here: Path, most_bytes: int) -> None:
        """Copy a file from there; a longer one is an error."""

    @abstractmethod
    def lost(self) -> str | None:
        """Return why the place cannot be reached any more; None while it can."""

    def condition(self) -> Condition | None:
        """Return the state on which speed depends there; None where the place reports none."""
        return None

    def raise_if_lost(self, error: Exception) -> None:
        """Raise that the place was lost, after a program there ended; the connection's own end may come just after."""
        end = time.monotonic() + SETTLE_S
        while (lost := self.lost()) is None and time.monotonic() < end:
            time.sleep(0.05)
        if lost is not None:
            raise PlaceLostError(lost) from error

    @abstractmethod
    def close(self) -> None:
        """End every program that was started there, and delete the scratch folder."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
