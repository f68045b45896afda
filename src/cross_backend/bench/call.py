"""Call: run what a bench has open once on given tensors, and time it: what an application does, one input at a time."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cross_backend.backend import CallElsewhere
from cross_backend.bench.reading import Reading
from cross_backend.bench.shared import Handed, Reader, Writer
from cross_backend.measure.clock import timed

if TYPE_CHECKING:
    from cross_backend.bench.open_artifact import OpenArtifact


@dataclass(frozen=True)
class Called:
    """How long one call took, and what it gave."""

    bind_ns: int
    """Handing the inputs to the runtime."""
    run_ns: int
    """The call itself, until its outputs are there; by the clock of where the program runs."""
    outputs: Handed
    """There until the next call."""


@dataclass(frozen=True)
class Call(Reading[Called]):
    """Bind inputs, run once, and hand all outputs out."""

    inputs: Handed
    folder: Path
    """Receives the outputs' file."""

    def read(self, artifact: OpenArtifact) -> Called:
        """Return the durations and the outputs; what is bound otherwise stays bound."""
        reader, writer = _ends(self.folder)
        inputs = reader.take(self.inputs)
        run, bind_ns = timed(lambda: artifact.session.bind(inputs))
        produced, run_ns = run.timed() if isinstance(run, CallElsewhere) else timed(run)
        return Called(bind_ns, run_ns, writer.hand(produced))


@functools.lru_cache(maxsize=1)
def _ends(folder: Path) -> tuple[Reader, Writer]:
    """Return this process's ends, which stay mapped from call to call."""
    return Reader(), Writer(folder, "outputs")
