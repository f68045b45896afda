"""Benches of the playground: each backend in a process of its own, opened when it is asked for; a crash ends one."""

from __future__ import annotations

import contextlib
import functools
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from cross_backend.bench.bench import Bench, Subject
from cross_backend.bench.call import Call, Called
from cross_backend.bench.reading import Reading
from cross_backend.bench.shared import Reader, Writer
from cross_backend.cache import Cache
from cross_backend.comparison.benches import open_bench, wrong_on_kept
from cross_backend.comparison.settings import Settings
from cross_backend.errors import CrossBackendError, LoadError, UnavailableError, WorkerError
from cross_backend.loading.load import resolve_artifact
from cross_backend.records import Timing
from cross_backend.registry import check_runs
from cross_backend.tensors import load_tensors
from cross_backend.verify.compare import precision_of
from cross_backend.web.catalogue import Choice
from cross_backend.web.turns import Turns
from cross_backend.worker.question import Answer

if TYPE_CHECKING:
    import numpy as np

MOST_OPEN = 6
"""Benches that are open at once; the one that was longest unused is closed for another."""
TIMEOUT_S = 60.0
"""Longest answer of a bench: opening, or one call."""
PROFILED_RUNS = 20
LOOK_S = 0.2
"""Between two looks at the memory of a process, which take as long as all the rest of a short call."""


@dataclass(frozen=True)
class Proof:
    """What the artifact's own sample said when it was opened."""

    load_ms: float
    verdict: bool | None
    """None where it has no sample."""
    text: str
    """One line of it."""


@dataclass(frozen=True)
class Ran:
    """One call."""

    inputs: Sequence[Any]
    outputs: tuple[np.ndarray[Any, Any], ...]
    called: Called
    rss_bytes: int | None
    """Resident memory of the process that ran it; None where it is on another machine."""
    proof: Proof
    opened: bool
    """Whether it was opened for this call."""


@dataclass(frozen=True)
class Held:
    """A bench that is open, for as long as the turn is kept."""

    proof: Proof
    opened: bool
    """Whether it was opened for this turn."""
    take: Callable[[Reading[Any]], Any]
    """Return what a reading finds; after a crash the bench is gone."""
    rss_bytes: Callable[[], int | None]
    """Return the resident memory of its process; None where it is on another machine."""


@dataclass
class _Seat:
    """A choice's bench, where it is open."""

    choice: Choice
    folder: Path
    used: float = 0.0
    bench: Bench | None = None
    proof: Proof | None = None
    stack: ExitStack = field(default_factory=ExitStack)
    writer: Writer | None = None
    """Of the inputs; None where it is not open."""
    reader: Reader | None = None
    """Of the outputs."""

    looked: float = 0.0
    """At its memory, last."""
    seen_bytes: int | None = None

    def rss_bytes(self) -> int | None:
        """Return the resident memory of its process, as it was within the last :data:`LOOK_S`."""
        now = time.monotonic()
        if now - self.looked > LOOK_S and self.bench is not None:
            self.looked, self.seen_bytes = now, _rss_bytes(self.bench.pid)
        return self.seen_bytes

    def close(self) -> None:
        self.stack.close()
        self.bench = self.writer = self.reader = None
        self.looked = 0.0


class Benches:
    """Opens, calls and closes, one thing at a time, so that none slows another one down; used in ``with``.

    Threads may ask at once: they come in the order in which they asked.
    """

    def __init__(self, cache: Cache, tell: Callable[[str, Choice, str], None], threads: int = 1) -> None:
        """Prepare.

        Args:
            cache: where logs and tensors lie.
            tell: is told (event, choice, text) of what happens to benches: ``opening``, ``open``, ``closed``, ``lost``.
            threads: CPU threads of each target that names no number of its own.
        """
        self._cache, self._tell = cache, tell
        self._settings = Settings(threads=threads, timeout_s=TIMEOUT_S)
        self._seats: dict[str, _Seat] = {}
        self._stack, self._turns = ExitStack(), Turns()

    def __enter__(self) -> Self:
        self._folder = self._stack.enter_context(self._cache.scratch())
        return self

    def __exit__(self, *_: object) -> None:
        for seat in self._seats.values():
            seat.close()
        self._stack.close()

    @property
    def open_now(self) -> list[str]:
        """Keys of the choices whose bench is open."""
        return [key for key, seat in self._seats.items() if seat.bench is not None]

    def pid(self, key: str) -> int | None:
        """Return the process of an open bench."""
        seat = self._seats.get(key)
        return seat.bench.pid if seat is not None and seat.bench is not None else None

    def run(self, choice: Choice, inputs: Sequence[Any] | None) -> Ran:
        """Run once; opens the bench where it is not open.

        Args:
            choice: what to run.
            inputs: flat arrays; the artifact's sample where None.

        Raises:
            CrossBackendError: it cannot be run; after a crash the next call opens another bench.
        """
        with self._seated(choice) as (seat, opened):
            return self._call(seat, inputs, opened)

    def profile(self, choice: Choice) -> tuple[Timing, ...]:
        """Return what the runtime's own profiler says of the artifact's sample, most expensive first.

        Raises:
            CrossBackendError: as :meth:`run`; UnsupportedError where the runtime has no profiler that is read.
        """
        with self._seated(choice) as (seat, _):
            return self._profile(seat)

    @contextlib.contextmanager
    def _seated(self, choice: Choice) -> Iterator[tuple[_Seat, bool]]:
        """Wait for a turn, with the choice's bench open; yield whether it was opened for that."""
        _check_usable(choice)
        with self._turns:
            yield self._seat_of(choice)

    @contextlib.contextmanager
    def holding(self) -> Iterator[Callable[[Choice], Held]]:
        """Wait for a turn, and keep it; yield what opens the benches of up to :data:`MOST_OPEN` choices.

        Nobody else's call comes between two of theirs, so that the state of a program stays its own.
        """
        with self._turns:

            def hold(choice: Choice) -> Held:
                _check_usable(choice)
                seat, opened = self._seat_of(choice)
                seat.used = time.monotonic()
                assert seat.proof is not None, "it was just opened"
                return Held(seat.proof, opened, functools.partial(self._take, seat), seat.rss_bytes)

            yield hold

    def _take(self, seat: _Seat, reading: Reading[Answer]) -> Answer:
        assert seat.bench is not None, "it is held"
        with self._lost_with(seat, WorkerError):
            return seat.bench.take(reading)

    def _seat_of(self, choice: Choice) -> tuple[_Seat, bool]:
        """Return a choice's seat, opened, and whether it was opened for that; whoever asks has a turn."""
        seat = self._seats.get(choice.key)
        if seat is None:
            seat = self._seats[choice.key] = _Seat(choice, self._folder / choice.key)
        opened = seat.bench is None
        if opened:
            self._make_room()
            self._open(seat)
        return seat, opened

    def _make_room(self) -> None:
        """Close what was longest unused."""
        others = [seat for seat in self._seats.values() if seat.bench is not None]
        for seat in sorted(others, key=lambda seat: seat.used)[: max(0, len(others) - MOST_OPEN + 1)]:
            seat.close()
            self._tell("closed", seat.choice, "to make room for another")

    def _open(self, seat: _Seat) -> None:
        """Open the artifact and verify it on its sample."""
        artifact = seat.choice.artifact
        assert artifact is not None, "checked by who calls"
        self._tell("opening", seat.choice, "")
        seat.stack = ExitStack()
        began = time.perf_counter()
        with self._lost_with(seat, CrossBackendError):
            artifact.check()
            resolved = check_runs(resolve_artifact(artifact))
            target = str(resolved.target)
            bench, opened = open_bench(artifact.payload_path, target, self._settings, self._cache, seat.stack)
            verdict, text = None, "Not verified: it has no sample input"
            if artifact.sample is None:
                bench.run(None)
            else:
                precision = precision_of(resolved.options)
                comparison = bench.verify(precision).comparison
                why = f"On the sample input: {comparison.why}" if comparison.why else "Verified on the sample input"
                verdict, text = comparison.verdict, why
                if verdict and (wrong := wrong_on_kept(bench, artifact.program, precision, self._cache)):
                    verdict, text = False, f"On an input that an earlier search kept: wrong outputs: {wrong}"
        shutil.rmtree(seat.folder, ignore_errors=True)
        seat.folder.mkdir(parents=True)
        seat.writer, seat.reader = Writer(seat.folder, "inputs"), Reader()
        seat.bench, seat.proof = bench, Proof(opened.load_ns / 1e6, verdict, text)
        self._tell("open", seat.choice, f"after {time.perf_counter() - began:.1f} s")

    @contextlib.contextmanager
    def _lost_with(self, seat: _Seat, kind: type[CrossBackendError]) -> Iterator[None]:
        """Close a seat where its bench raises an error of a kind, which goes on."""
        try:
            yield
        except kind as error:
            seat.close()
            self._tell("lost", seat.choice, str(error))
            raise

    def _profile(self, seat: _Seat) -> tuple[Timing, ...]:
        artifact = seat.choice.artifact
        assert seat.bench is not None and artifact is not None, "it was just opened"
        seat.used = time.monotonic()
        subject = Subject(artifact.payload_path, artifact.target, self._settings.threads)
        with self._lost_with(seat, WorkerError):
            return seat.bench.profile(subject, PROFILED_RUNS)

    def _call(self, seat: _Seat, inputs: Sequence[Any] | None, opened: bool) -> Ran:
        assert seat.bench is not None and seat.proof is not None, "it was just opened"
        assert seat.writer is not None and seat.reader is not None, "as the bench is"
        seat.used = time.monotonic()
        given = sample_of(seat.choice) if inputs is None else inputs
        with self._lost_with(seat, WorkerError):
            called = seat.bench.take(Call(seat.writer.hand(given), seat.folder))
            produced = tuple(output.copy() for output in seat.reader.take(called.outputs))
        return Ran(given, produced, called, seat.rss_bytes(), seat.proof, opened)


def _check_usable(choice: Choice) -> None:
    if choice.artifact is None or choice.unavailable:
        raise UnavailableError(f"{choice.target} cannot be run here: {choice.unavailable}")


def sample_of(choice: Choice) -> Sequence[Any]:
    """Return the inputs of an artifact's own sample.

    Raises:
        LoadError: it has none.
    """
    assert choice.artifact is not None, "checked by who calls"
    path = choice.artifact.sample_path
    if path is None:
        raise LoadError(f"{choice.artifact.name} has no sample; give an input.")
    return load_tensors(path)["input"]


def _rss_bytes(pid: int | None) -> int | None:
    import psutil

    if pid is None:
        return None
    with contextlib.suppress(psutil.Error):
        return int(psutil.Process(pid).memory_info().rss)
    return None
