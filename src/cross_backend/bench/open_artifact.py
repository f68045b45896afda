"""Open artifact: what a worker process holds between questions: a session, and what is bound."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from cross_backend.artifact import Artifact
from cross_backend.backend import Options, Session
from cross_backend.backend.remembering import load_session
from cross_backend.cache import Cache
from cross_backend.errors import LoadError, failing_as
from cross_backend.foreign_files import can_others_write
from cross_backend.measure import memory
from cross_backend.measure.clock import timed
from cross_backend.registry import Resolved, resolve
from cross_backend.tensors import Tensors, load_tensors, random_inputs
from cross_backend.trust import keep, require

_copies = ExitStack()
"""Folders of copies, which this process keeps until its end."""
atexit.register(_copies.close)
Sample = Mapping[str, Tensors]
"""Groups of tensors: ``input``, ``expected``, …"""


class OpenArtifact:
    """A session with its inputs bound. It may be closed for a while; the next use opens it again."""

    def __init__(self, load: Callable[[], Session], sample: Sample) -> None:
        self.load, self.sample = load, sample
        self.baseline_bytes = memory.begin()
        """Resident memory before it was opened."""
        self.was_called = False
        self._session: Session | None
        self._run: Callable[[], Tensors] | None
        self._session, self.load_ns = timed(load)
        self._run, self.bind_ns = timed(lambda: self.session.bind(sample["input"]))

    @property
    def session(self) -> Session:
        """The open session."""
        if self._session is None:
            self._session = self.load()
        return self._session

    @property
    def run(self) -> Callable[[], Tensors]:
        """The bound call; whoever asks for it will call it."""
        self.was_called = True
        if self._run is None:
            self._run = self.session.bind(self.sample["input"])
        return self._run

    def bind(self, sample: Sample) -> None:
        """Bind other inputs."""
        self.sample = sample
        self._run = self.session.bind(sample["input"])

    def reset(self) -> None:
        """Return to the program's initial state."""
        self.session.reset()

    def close(self) -> None:
        """Close the session until the next use."""
        self._run = None
        session, self._session = self.session, None
        session.__exit__(None, None, None)


def resolve_with_threads(target: str, threads: int | None) -> tuple[Resolved, Options]:
    """Find a target; ``threads`` counts where it names no number of its own."""
    resolved = resolve(target)
    options = dict(resolved.options)
    if "threads" in options and options["threads"] is None:
        options["threads"] = threads
    return resolved, options


def check_code(artifact: Artifact, resolved: Resolved, cache: Cache, *, trust: bool = False) -> None:
    """Refuse a payload that holds code from elsewhere, or trust it from now on.

    Raises:
        UntrustedError: as it says.
    """
    code = resolved.backend.code_in(artifact)
    if code is not None:
        if trust:
            keep(cache, artifact.payload_path)
        require(cache, artifact.payload_path, code)


def settled(artifact: Artifact, cache: Cache) -> Artifact:
    """Return an artifact as it was checked: itself, or where others could exchange it a checked copy.

    Raises:
        ArtifactError: the copy is not what the manifest says.
    """
    cache.use(artifact.folder)
    paths = (artifact.payload_path, *([artifact.sample_path] if artifact.sample_path else ()))
    if not any(map(can_others_write, paths)):
        return artifact
    copied = artifact.copy_to(_copies.enter_context(cache.scratch()), artifact.name, artifact.target, "sample.npz")
    copied.check()
    return copied


def open_session(artifact: Artifact, resolved: Resolved, options: Options) -> Session:
    """Open a session."""
    with failing_as(LoadError, f"{resolved.target.name} cannot load {artifact.payload}"):
        return load_session(resolved.backend, artifact, options).__enter__()


def sample_of(artifact: Artifact) -> Sample:
    """Return the sample's groups, or random inputs where there is none."""
    return load_tensors(artifact.sample_path) if artifact.sample_path else {"input": random_inputs(artifact.inputs)}
