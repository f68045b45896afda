"""Every exception this package raises on purpose.

    CrossBackendError              one clear line for the user; exit status 1
    ├── UsageError                 an unknown name, option or value; exit status 2
    │   └── StudyFileError         a study file holds mistakes; one line for each
    ├── UnavailableError           the backend cannot do this here: reason and remedy
    ├── UnsupportedError           the backend can never take this program
    ├── CaptureError               the model could not be built or captured
    ├── LowerError                 a program could not be lowered to a target
    ├── ArtifactError              a file is missing, corrupt, truncated or not what its manifest says
    │   └── UntrustedError     a file holds code that was not made on this machine
    ├── ReportError                a report cannot be written where it was asked for
    ├── LoadError                  a runtime refused an artifact; carries every candidate's reason for load_best
    ├── RunError                   a runtime failed, or was handed inputs that do not fit
    ├── StoreError                 a database of studies cannot be opened, read or written
    ├── UnprovedError              outputs that are right prove nothing; exit status 3
    ├── PlaceError                 another machine cannot be reached, or refuses
    └── WorkerError                a worker process died or stayed silent
        └── WorkerTimeoutError

``PlaceLostError`` is none of them: it ends whatever is measured at that place, as Ctrl-C does.

Vendor exceptions are mapped to these where the vendor is called, with ``raise ... from``.
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from cross_backend.foreign_text import plain


class CrossBackendError(Exception):
    """Base of all errors. Its text is one line: what failed, why, and what to do.

    Example:
        >>> try:
        ...     xb.lower(program, "xnpack")
        ... except xb.CrossBackendError as error:
        ...     print(error)
        target: unknown backend 'xnpack'. Did you mean 'xnnpack'? ...
    """

    def __str__(self) -> str:
        return plain(super().__str__())


class UsageError(CrossBackendError):
    """The caller named something that does not exist or does not fit."""


class StudyFileError(UsageError):
    """A study file cannot be read, or holds mistakes, which are told together."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__(*lines)
        self.lines = tuple(map(plain, lines))

    def __str__(self) -> str:
        return "\n".join(self.lines)


class UnavailableError(CrossBackendError):
    """A backend cannot lower or run on this machine."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(f"{reason}; {remedy}" if remedy else reason)
        self.reason = reason
        self.remedy = remedy


class UnsupportedError(CrossBackendError):
    """A backend cannot take this kind of program anywhere."""


class CaptureError(CrossBackendError):
    """A model could not be built or captured."""


class LowerError(CrossBackendError):
    """A captured program could not be lowered."""


class ArtifactError(CrossBackendError):
    """A file on disk is missing, damaged, or does not match its manifest."""


class UntrustedError(ArtifactError):
    """A file holds code, was not made on this machine, and is not trusted."""


class ReportError(CrossBackendError):
    """A report cannot be written where it was asked for."""


class LoadError(CrossBackendError):
    """A runtime refused to open an artifact."""


class RunError(CrossBackendError):
    """A session failed, or its inputs do not fit its specification."""


class UnprovedError(CrossBackendError):
    """Outputs are those of the reference, and that proves nothing: they do not depend on the input, say."""


class StoreError(CrossBackendError):
    """A database of studies cannot be opened, read or written."""

    def __init__(self, text: str, spooled: Path | None = None) -> None:
        super().__init__(text)
        self.spooled = spooled
        """Where what could not be written is kept until it can; None where nothing was to be written, or it is lost."""


class PlaceError(CrossBackendError):
    """Another machine cannot be reached, or refuses."""


class PlaceLostError(Exception):
    """The connection to another machine broke while something was measured there."""


class WorkerError(CrossBackendError):
    """A worker process died; the text holds how, and the last line it logged."""


class WorkerTimeoutError(WorkerError):
    """A worker process did not answer in time and was killed."""


def unknown_name(kind: str, name: str, choices: Iterable[str]) -> UsageError:
    """Build the error for a name that is not in a table: the nearest names first, then all."""
    ordered = sorted(choices)
    near = difflib.get_close_matches(name, ordered, n=3, cutoff=0.6)
    hint = f" Did you mean {' or '.join(repr(n) for n in near)}?" if near else ""
    return UsageError(f"unknown {kind} {name!r}.{hint} Choices: {', '.join(ordered) or 'none'}.")


_SAYS_NOTHING = (KeyError, IndexError, AttributeError, StopIteration)
"""What a library raises where it did not foresee something; other links of the chain say more."""
CODES: dict[re.Pattern[str], Mapping[int, str]] = {}
"""Where a runtime's messages hold a status code, as its first group in hexadecimal digits → what the codes mean."""


def cause_of(error: BaseException) -> BaseException:
    """Return the innermost link of an exception's chain that says what is wrong; outer ones may name a pass only."""
    found, link = error, error
    while link.__cause__ is not None and not isinstance(link, CrossBackendError):
        link = link.__cause__
        if str(link).strip() and not isinstance(link, _SAYS_NOTHING):
            found = link
    return found


def one_line(error: BaseException, limit: int = 300) -> str:
    """Return an exception's message as one line of at most ``limit`` characters.

    That is the first line of what caused it, and the next one where it ends in a colon: what is wrong stands there.
    """
    error = cause_of(error)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    last = next((at for at, line in enumerate(lines) if not line.endswith(":")), len(lines))
    text = plain(" ".join(lines[: last + 1]))
    for code, meanings in CODES.items():
        text = code.sub(lambda match, known=meanings: _with_meaning(match, known), text)  # type: ignore[misc]
    if not isinstance(error, CrossBackendError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _with_meaning(match: re.Match[str], meanings: Mapping[int, str]) -> str:
    meaning = meanings.get(int(match[1], 16))
    return f"{match[0]} ({meaning})" if meaning else match[0]


@contextlib.contextmanager
def failing_as(kind: type[CrossBackendError], failed: str) -> Iterator[None]:
    """Raise whatever a vendor's library raises as one of our errors: ``failed``, then its text.

    A panic of a library in Rust is a ``BaseException``.
    """
    try:
        yield
    except CrossBackendError:
        raise
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise kind(f"{failed}: {one_line(error)}") from error
        raise
