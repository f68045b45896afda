"""Piped: one short command whose output has a bounded length and time."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from cross_backend.errors import PlaceError

_LONGEST_COMPLAINT = 1 << 20


@dataclass(frozen=True)
class Piped:
    """How a command ended."""

    status: int
    printed: bytes
    complaint: str
    """What it wrote to its standard error."""


def piped(
    who: str, command: Sequence[str], given: IO[bytes] | int, patience_s: float, most_bytes: int, beside: int = 0
) -> Piped:
    """Run a command on this machine.

    Args:
        who: the place that it asks, for errors.
        command: program and arguments.
        given: its standard input.
        patience_s: longest wait.
        most_bytes: longest output.
        beside: bytes that may come on top, which are no part of the answer.

    Raises:
        PlaceError: it takes longer, or prints more.
    """
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdin=given, stdout=subprocess.PIPE, stderr=errors, start_new_session=True)
        try:
            printed = _read(who, process, patience_s, most_bytes, beside)
        finally:
            end(process)
        errors.seek(0)
        return Piped(process.returncode, printed, errors.read(_LONGEST_COMPLAINT).decode(errors="replace"))


def _read(who: str, process: subprocess.Popen[bytes], patience_s: float, most_bytes: int, beside: int) -> bytes:
    assert process.stdout is not None
    printed, limit_s = bytearray(), time.monotonic() + patience_s
    while time.monotonic() < limit_s:
        if not select.select([process.stdout], [], [], 0.5)[0]:
            continue
        chunk = os.read(process.stdout.fileno(), 1 << 20)
        if not chunk:
            process.wait(10)
            return bytes(printed)
        printed += chunk
        if len(printed) > most_bytes + beside:
            raise PlaceError(f"{who} answers with more than {most_bytes:,} bytes, which no answer has.")
    raise PlaceError(f"{who} did not answer within {patience_s:.0f} s.")


def connects(process: subprocess.Popen[bytes], patience_s: float, most_bytes: int) -> bool:
    """Wait for the line ``connected`` of a process; where it does not come, the process is ended."""
    assert process.stdout is not None
    limit_s, told = time.monotonic() + patience_s, b""
    while not told.endswith(b"connected\n") and len(told) < most_bytes and time.monotonic() < limit_s:
        if select.select([process.stdout], [], [], 0.2)[0]:
            chunk = os.read(process.stdout.fileno(), 1 << 16)
            if not chunk:
                break
            told += chunk
    if told.endswith(b"connected\n"):
        return True
    end(process)
    return False


def let_end(process: subprocess.Popen[bytes], patience_s: float) -> None:
    """Close a process's standard input, wait for its end, and kill it where that does not come."""
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(patience_s)
    end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and what it started, and close its pipes."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
