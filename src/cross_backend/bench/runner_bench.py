"""Runner bench: the C++ runner on another machine, which has no Python; what it computes is judged here."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cross_backend.artifact import Artifact
from cross_backend.bench.bench import Bench, Opened, Subject, Verified, given_in, head_of
from cross_backend.bench.reading import Reading
from cross_backend.bench.verification import Judged, verified
from cross_backend.bundling import find_artifact
from cross_backend.errors import ArtifactError, RunError, UnsupportedError, WorkerError, one_line
from cross_backend.measure.latency import Samples
from cross_backend.places.place import Place
from cross_backend.records import Execution, Timing
from cross_backend.registry import resolve
from cross_backend.tensors import Tensors, TensorSpec, dtype_of, load_tensors, random_inputs, read_specs, save_tensors
from cross_backend.worker.process import Worker
from cross_backend.worker.question import Answer, Answering, Question

MOST_OUTPUT_BYTES = 4 << 30
"""Of one tensor."""
MOST_OUTPUTS = 1000


class RunnerQuestion(Question[Answer]):
    """What only the runner answers; it knows the question by its name without ``Runner``."""

    @property
    def name(self) -> str:
        """As the runner reads it."""
        return f"runner:{type(self).__name__.removeprefix('Runner')}"

    def answer(self, _process: Answering) -> Answer:
        """Refuse: this process is not the runner.

        Raises:
            RunError: always.
        """
        raise RunError(f"'{self.title}' is a question for the C++ runner.")


@dataclass(frozen=True)
class TensorRow:
    """A tensor in a file there: row-major, little-endian."""

    path: str
    dtype: str
    shape: list[int]


@dataclass(frozen=True)
class OpenedThere:
    """How long it took there."""

    cold: bool
    load_ns: int
    bind_ns: int


@dataclass(frozen=True)
class RanThere:
    """What one call gave."""

    first_ns: int | None
    head: list[float | None]
    outputs: list[TensorRow]


@dataclass(frozen=True)
class MachineThere:
    """What the machine is, as the runner reads it."""

    architecture: str
    cores: int
    cpu: str
    memory_bytes: int
    release: str
    system: str
    runtimes: dict[str, list[str]]
    """Runtime → the delegates that it holds."""
    hostname: str = ""
    load_1m: float | None = None
    temperature_c: float | None = None
    governor: str | None = None


@dataclass(frozen=True)
class RunnerOpen(RunnerQuestion[OpenedThere]):
    """Open a payload, and bind its inputs; random ones where None."""

    payload: str
    target: str
    sha256: str
    threads: int
    inputs: list[TensorRow] | None


@dataclass(frozen=True)
class RunnerBind(RunnerQuestion[None]):
    """Bind other inputs."""

    inputs: list[TensorRow]


@dataclass(frozen=True)
class RunnerRun(RunnerQuestion[RanThere]):
    """Run once, and write the outputs into a folder there."""

    outputs: str | None


@dataclass(frozen=True)
class RunnerSample(RunnerQuestion[Samples]):
    """Time calls one by one."""

    calls: int
    warm_up: int
    seconds: float

    @property
    def working_s(self) -> float:
        """It works so long."""
        return self.seconds


@dataclass(frozen=True)
class RunnerProfile(RunnerQuestion[tuple[Timing, ...]]):
    """Run with the profiler."""

    runs: int


@dataclass(frozen=True)
class RunnerMachine(RunnerQuestion[MachineThere]):
    """What machine it is."""


class RunnerBench(Bench):
    """Asks a runner that serves at a place."""

    def __init__(self, worker: Worker, timeout_s: float, place: Place, functional_only: str | None = None) -> None:
        """Use a runner, which ends with the bench.

        Args:
            worker: the runner's process.
            timeout_s: longest answer.
            place: where it runs; it stays open.
            functional_only: why durations there say nothing; None where they do.
        """
        self._worker, self._timeout_s, self._place = worker, timeout_s, place
        self._folder = Path(tempfile.mkdtemp(prefix="cb-"))
        self._functional_only = functional_only
        self._open: _OpenThere | None = None

    @property
    def pid(self) -> None:
        """No process of this machine."""
        return

    def ask(self, question: Question[Answer]) -> Answer:
        """Return the runner's answer.

        Raises:
            PlaceLostError: the machine cannot be reached any more.
        """
        try:
            return self._worker.ask(question, self._timeout_s)
        except WorkerError as error:
            self._place.raise_if_lost(error)
            raise

    @property
    def _held(self) -> _OpenThere:
        if self._open is None:
            raise RunError("no artifact is open.")
        return self._open

    def open(self, subject: Subject) -> Opened:  # noqa: D102  the declaration says it
        if not subject.has_manifest:
            raise UnsupportedError("the C++ runner opens artifacts with a manifest; export the model again.")
        artifact = find_artifact(subject.payload)
        if not artifact.payload_path.is_file():
            raise UnsupportedError(f"the C++ runner has no {resolve(artifact.target).backend.title}.")
        sample = load_tensors(artifact.sample_path) if artifact.sample_path else {}
        threads = int(resolve(subject.target).options.get("threads") or subject.threads)
        self._open = _OpenThere(self, artifact, sample or {"input": random_inputs(artifact.inputs)}, threads)
        found = self._held.opened
        return Opened(found.cold, None, None, found.load_ns, found.bind_ns)

    def verify(self, precision: str) -> Verified:  # noqa: D102
        held = self._held
        found: Judged = verified(held, precision)
        return Verified(found.comparison, head_of(found.outputs), held.first_ns)

    def bind(self, inputs: Path) -> None:  # noqa: D102
        self._held.bind(given_in(inputs))

    def run(self, outputs: Path | None) -> tuple[float, ...]:  # noqa: D102
        if outputs is None:
            return tuple(float("nan") if value is None else value for value in self.ask(RunnerRun(None)).head)
        produced = self._held.run()
        save_tensors(outputs, {"output": produced})
        return head_of(produced)

    def sample(self, calls: int, warm_up: int, seconds: float) -> Samples:  # noqa: D102
        return self.ask(RunnerSample(calls, warm_up, seconds))

    def execution(self, subject: Subject) -> Execution | None:  # noqa: D102
        if self._functional_only is None:
            return None
        return Execution(resolve(subject.target).backend.title, functional_only=self._functional_only)

    def profile(self, subject: Subject, runs: int) -> tuple[Timing, ...]:  # noqa: D102
        self.open(subject)
        return self.ask(RunnerProfile(runs))

    def take(self, reading: Reading[Answer]) -> Answer:  # noqa: D102
        raise UnsupportedError(f"the C++ runner does not take '{reading.title}'.")

    def close(self) -> None:  # noqa: D102
        self._worker.__exit__(None, None, None)
        shutil.rmtree(self._folder, ignore_errors=True)

    def sent(self, arrays: Sequence[Any]) -> list[TensorRow]:
        """Copy tensors there."""
        import numpy as np

        folder = Path(tempfile.mkdtemp(dir=self._folder))
        files, rows = {}, []
        for index, array in enumerate(arrays):
            files[f"{index}.bin"] = folder / f"{index}.bin"
            files[f"{index}.bin"].write_bytes(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes())
            rows.append((f"{index}.bin", array.dtype.name, list(array.shape)))
        there = self._place.push(files)
        return [TensorRow(f"{there}/{name}", dtype, shape) for name, dtype, shape in rows]

    def fetched(self, rows: Sequence[TensorRow]) -> list[Any]:
        """Copy tensors from there; what the far side says of them is checked against the bytes.

        Raises:
            RunError: it says what no tensor is.
        """
        import numpy as np

        if len(rows) > MOST_OUTPUTS:
            raise RunError(f"the far side returns {len(rows)} outputs.")
        arrays = []
        for row in rows:
            try:
                read_specs([{"name": "output", "dtype": row.dtype, "shape": row.shape}])
            except (TypeError, ValueError) as error:
                raise RunError(f"the far side returns an output that is no tensor ({one_line(error)}).") from error
            stored = dtype_of(row.dtype)
            size = math.prod(row.shape) * stored.itemsize
            if size > MOST_OUTPUT_BYTES:
                raise RunError(f"the far side returns an output of shape {row.shape}.")
            here = self._folder / "fetched.bin"
            self._place.pull(row.path, here, size)
            if here.stat().st_size != size:
                raise RunError(f"the far side returns {here.stat().st_size} bytes where {size} are right.")
            arrays.append(np.fromfile(here, np.uint8).view(stored.newbyteorder("<")).reshape(row.shape))
        return arrays

    def push_payload(self, artifact: Artifact) -> str:
        """Copy a payload there and return its path."""
        name = f"payload{artifact.payload_path.suffix}"
        return f"{self._place.push({name: artifact.payload_path})}/{name}"

    @property
    def scratch(self) -> str:
        """Folder there for outputs."""
        return self._place.scratch


class _OpenThere:
    """An artifact that is open there, as verification sees it."""

    def __init__(self, bench: RunnerBench, artifact: Artifact, sample: Mapping[str, Tensors], threads: int) -> None:
        self.bench, self.artifact, self.sample, self.threads = bench, artifact, sample, threads
        self.was_called = False
        self.first_ns: int | None = None
        self.opened = self._opened()

    @property
    def session(self) -> _SessionThere:
        return _SessionThere(self, self.artifact.inputs, self.artifact.outputs)

    def _opened(self) -> OpenedThere:
        inputs = self.bench.sent(self.sample["input"])
        payload = self.bench.push_payload(self.artifact)
        try:
            return self.bench.ask(RunnerOpen(payload, self.artifact.target, self.artifact.sha256, self.threads, inputs))
        except ArtifactError as error:
            raise ArtifactError(f"on the far side: {error}") from error

    def run(self) -> list[Any]:
        """Run on what is bound and return the outputs."""
        self.was_called = True
        found = self.bench.ask(RunnerRun(self.bench.scratch))
        self.first_ns = found.first_ns if found.first_ns is not None else self.first_ns
        return self.bench.fetched(found.outputs)

    def bind(self, sample: Mapping[str, Tensors]) -> None:
        """Bind a sample's inputs."""
        self.sample = sample
        self.session.bind(sample["input"])

    def reset(self) -> None:
        """Open it again, in its initial state."""
        self.opened = self._opened()


@dataclass(frozen=True)
class _SessionThere:
    """Its session."""

    one: _OpenThere
    inputs: Sequence[TensorSpec]
    outputs: Sequence[TensorSpec]

    def bind(self, inputs: Sequence[Any]) -> Callable[[], list[Any]]:
        """Bind tensors and return the call."""
        self.one.bench.ask(RunnerBind(self.one.bench.sent(inputs)))
        return self.one.run
