"""Bench: where an artifact is opened and measured: a process here; later a phone, a browser, a cluster's node."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from cross_backend.bench.reading import Reading
from cross_backend.errors import RunError
from cross_backend.measure.latency import Samples
from cross_backend.records import Comparison, Execution, Timing
from cross_backend.tensors import Tensors, load_tensors
from cross_backend.worker.question import Answer

HEAD = 8
"""Values of the first output that are shown."""


@dataclass(frozen=True)
class Subject:
    """What is put on a bench."""

    payload: Path
    """Of the artifact, or its manifest."""
    target: str
    threads: int
    """CPU threads, where the target names no number of its own."""
    has_manifest: bool = True
    """False for a file of others, which says itself what it takes; it is run on random inputs."""


@dataclass(frozen=True)
class Opened:
    """How long each step of opening took."""

    cold: bool
    """Whether nothing was opened there before."""
    process_ns: int | None
    """From starting the process to the end of this package's own imports; None on another machine."""
    import_ns: int | None
    """Of the runtime's modules; None where it has none."""
    load_ns: int
    """From asking the runtime to load to a session that is ready."""
    bind_ns: int

    @property
    def load_s(self) -> float:
        """The same in seconds."""
        return self.load_ns / 1e9


@dataclass(frozen=True)
class Verified:
    """What one call on each input of the sample gave."""

    comparison: Comparison
    head: tuple[float, ...]
    """First values of the first output."""
    first_ns: int | None
    """Duration of the first call since it was opened; None where it was called before."""


class Bench(ABC):
    """Measures one artifact at a time; use it in ``with``.

    Whoever uses it cannot see which kind it is. Every method but ``close`` may raise LoadError, RunError or
    UnsupportedError, after which the bench goes on, and WorkerError: the process died, or gave no answer in time.
    """

    @property
    @abstractmethod
    def pid(self) -> int | None:
        """Process on this machine that holds the session, whose memory and power can be watched; None if elsewhere."""

    @abstractmethod
    def open(self, subject: Subject) -> Opened:
        """Open an artifact and bind its sample inputs, or random ones where it has none."""

    @abstractmethod
    def verify(self, precision: str) -> Verified:
        """Compare the outputs on what is bound with the reference, by the rule for a precision (``int8``, say)."""

    @abstractmethod
    def bind(self, inputs: Path) -> None:
        """Bind a tensor file's inputs (group ``input``) instead; its group ``expected``, if any, is the reference."""

    @abstractmethod
    def run(self, outputs: Path | None) -> tuple[float, ...]:
        """Run once, write all outputs to a tensor file where one is given; return the first values of the first."""

    @abstractmethod
    def sample(self, calls: int, warm_up: int, seconds: float) -> Samples:
        """Time calls one by one; see :func:`cross_backend.measure.latency.sample`."""

    @abstractmethod
    def execution(self, subject: Subject) -> Execution | None:
        """Return where the work really runs, found in a session of its own; None where it cannot run elsewhere."""

    @abstractmethod
    def profile(self, subject: Subject, runs: int) -> tuple[Timing, ...]:
        """Return what the runtime's profiler says of so many runs, in a session of its own."""

    @abstractmethod
    def take(self, reading: Reading[Answer]) -> Answer:
        """Return what an instrument reads of what is open."""

    @abstractmethod
    def close(self) -> None:
        """End it, and all that it started, at once."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def head_of(outputs: Sequence[Any]) -> tuple[float, ...]:
    """Return the first few values of the first output; of complex ones the real parts."""
    return tuple(float(v.real) for v in outputs[0].reshape(-1)[:HEAD]) if outputs else ()


def given_in(path: Path) -> Mapping[str, Tensors]:
    """Return the groups of a tensor file, of which one is ``input``.

    Raises:
        RunError: none is.
    """
    groups = load_tensors(path)
    if "input" not in groups:
        raise RunError(f"{path} has no input_0, input_1, …; it holds {', '.join(groups) or 'nothing'}.")
    return groups
