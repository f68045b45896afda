"""Worker bench: the bench that is a worker process on this machine, under this interpreter or a toolchain's."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from cross_backend.artifact import Artifact
from cross_backend.backend import Options
from cross_backend.backend.profiles import in_order
from cross_backend.backend.remembering import pure_call
from cross_backend.bench.bench import Bench, Opened, Subject, Verified, given_in, head_of
from cross_backend.bench.foreign import describe
from cross_backend.bench.open_artifact import (
    OpenArtifact,
    check_code,
    open_session,
    resolve_with_threads,
    sample_of,
    settled,
)
from cross_backend.bench.reading import Reading
from cross_backend.bench.verification import verified
from cross_backend.bundling import find_artifact
from cross_backend.cache import Cache
from cross_backend.errors import RunError, failing_as
from cross_backend.measure import latency
from cross_backend.measure.clock import import_modules, timed
from cross_backend.measure.latency import Samples
from cross_backend.records import Execution, Timing
from cross_backend.registry import Resolved, rows
from cross_backend.tensors import Tensors, save_tensors, to_numpy
from cross_backend.worker.process import Worker
from cross_backend.worker.question import WRITTEN, Answer, Answering, Question


class WorkerBench(Bench):
    """Asks a worker process; each method's work is the question beside it, in this file."""

    def __init__(self, worker: Worker, timeout_s: float) -> None:
        """Use a worker, which ends with the bench.

        Args:
            worker: nothing is open in it.
            timeout_s: longest answer, beside the time for which it is to work.
        """
        self.worker, self._timeout_s = worker, timeout_s

    @property
    def pid(self) -> int:
        """The worker's process id."""
        return self.worker.pid

    def _ask(self, question: Question[Answer]) -> Answer:
        return self.worker.ask(question, self._timeout_s)

    def open(self, subject: Subject) -> Opened:  # noqa: D102  the declaration says it
        return self._ask(Open(subject, self.worker.started_ns))

    def verify(self, precision: str) -> Verified:  # noqa: D102
        return self._ask(Verify(precision))

    def bind(self, inputs: Path) -> None:  # noqa: D102
        self._ask(Bind(inputs))

    def run(self, outputs: Path | None) -> tuple[float, ...]:  # noqa: D102
        return self._ask(Run(outputs))

    def sample(self, calls: int, warm_up: int, seconds: float) -> Samples:  # noqa: D102
        return self._ask(Sample(calls, warm_up, seconds))

    def execution(self, subject: Subject) -> Execution | None:  # noqa: D102
        return self._ask(FindExecution(subject))

    def profile(self, subject: Subject, runs: int) -> tuple[Timing, ...]:  # noqa: D102
        return self._ask(Profile(subject, runs))

    def steps(self, subject: Subject, runs: int) -> tuple[Timing, ...]:
        """Return a typical profiled run, operator by operator in their order, in a session of its own."""
        return self._ask(Steps(subject, runs))

    def take(self, reading: Reading[Answer]) -> Answer:  # noqa: D102
        return self._ask(reading)

    def close(self) -> None:  # noqa: D102
        self.worker.__exit__(None, None, None)


@dataclass(frozen=True)
class Open(Question[Opened]):
    """Open an artifact and bind its inputs; time every step."""

    subject: Subject
    started_ns: int
    """When the process was started."""

    def answer(self, process: Answering) -> Opened:
        """Return how long each step took."""
        cold, process.is_cold = process.is_cold, False
        rows()  # finding out which backends there are is our cost, and no part of the import

        def import_all() -> tuple[Resolved, Options]:
            found = resolve_with_threads(self.subject.target, self.subject.threads)
            import_modules(found[0].backend.runtime_modules)
            return found

        (resolved, options), import_ns = timed(import_all)
        artifact = _artifact(self.subject, resolved)
        one = OpenArtifact(lambda: open_session(artifact, resolved, options), sample_of(artifact))
        process.open = one
        return Opened(cold, process.began_ns - self.started_ns, import_ns, one.load_ns, one.bind_ns)


@dataclass(frozen=True)
class Verify(Question[Verified]):
    """Run on the sample's inputs and compare with what eager float32 gave."""

    precision: str

    def answer(self, process: Answering) -> Verified:
        """Return the verdict."""
        found = verified(process.held(), self.precision)
        return Verified(found.comparison, head_of(found.outputs), found.first_call_ns)


@dataclass(frozen=True)
class Bind(Question[None]):
    """Bind the inputs of a tensor file."""

    inputs: Path

    def answer(self, process: Answering) -> None:
        """Leave it bound."""
        process.held().bind(given_in(self.inputs))


@dataclass(frozen=True)
class Run(Question[tuple[float, ...]]):
    """Run once on what is bound."""

    outputs: Path | None = field(metadata=WRITTEN)

    def answer(self, process: Answering) -> tuple[float, ...]:
        """Return the first values of the first output."""
        run = process.held().run
        with failing_as(RunError, "it failed"):
            returned = run()
        produced = [to_numpy(y) for y in returned]
        if self.outputs is not None:
            save_tensors(self.outputs, {"output": produced})
        return head_of(produced)


@dataclass(frozen=True)
class Sample(Reading[Samples]):
    """Time calls one by one."""

    calls: int
    warm_up: int
    seconds: float

    def read(self, artifact: OpenArtifact) -> Samples:
        """Return the durations."""
        return latency.sample(artifact.run, self.calls, self.warm_up, self.seconds)


@dataclass(frozen=True)
class FindExecution(Question[Execution | None]):
    """Find out where an artifact's work runs, in a session of its own."""

    subject: Subject

    def answer(self, _process: Answering) -> Execution | None:
        """Return what the runtime recorded."""
        artifact, resolved, options, inputs = _prepared(self.subject)
        with failing_as(RunError, "it failed while it was measured"):
            return resolved.backend.execution(artifact, options, inputs)


@dataclass(frozen=True)
class Profile(Question[tuple[Timing, ...]]):
    """Run an artifact on its sample inputs with the runtime's profiler, in a session of its own."""

    subject: Subject
    runs: int

    def answer(self, _process: Answering) -> tuple[Timing, ...]:
        """Return one row for each kind of operator."""
        artifact, resolved, options, inputs = _prepared(self.subject)
        with failing_as(RunError, "it failed while it was profiled"):
            return resolved.backend.profile(artifact, options, inputs, self.runs)


@dataclass(frozen=True)
class Steps(Question[tuple[Timing, ...]]):
    """Run an artifact on its sample inputs with the runtime's profiler, in a session of its own."""

    subject: Subject
    runs: int

    def answer(self, _process: Answering) -> tuple[Timing, ...]:
        """Return one row for each operator that ran, in their order."""
        artifact, resolved, options, inputs = _prepared(self.subject)
        with failing_as(RunError, "it failed while it was profiled"):
            return in_order(resolved.backend.record_calls(artifact, options, inputs, self.runs))


def _prepared(subject: Subject) -> tuple[Artifact, Resolved, Options, Tensors]:
    resolved, options = resolve_with_threads(subject.target, subject.threads)
    artifact = _artifact(subject, resolved)
    artifact, inputs = pure_call(resolved.backend, artifact, sample_of(artifact)["input"])
    return artifact, resolved, options, inputs


def _artifact(subject: Subject, resolved: Resolved) -> Artifact:
    """Read an artifact; one that holds code from elsewhere is refused."""
    if not subject.has_manifest:
        return describe(subject.payload)
    artifact = settled(find_artifact(subject.payload), Cache())
    check_code(artifact, resolved, Cache())
    return artifact
