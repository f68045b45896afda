"""Call: run what a bench has open once on given tensors, and time it: what an application does, one input at a time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cross_backend.backend import CallElsewhere
from cross_backend.bench.reading import Reading
from cross_backend.errors import RunError
from cross_backend.measure.clock import timed
from cross_backend.tensors import load_tensors, save_tensors

if TYPE_CHECKING:
    from cross_backend.bench.open_artifact import OpenArtifact


@dataclass(frozen=True)
class Called:
    """How long one call took."""

    bind_ns: int
    """Handing the inputs to the runtime."""
    run_ns: int
    """The call itself, until its outputs are there; by the clock of where the program runs."""


@dataclass(frozen=True)
class Call(Reading[Called]):
    """Bind the inputs of a tensor file, run once, and write all outputs to another one."""

    inputs: Path
    """Group ``input``: a ``.npz``, or a folder of ``.npy`` files."""
    outputs: Path
    """Receives group ``output``."""

    def read(self, artifact: OpenArtifact) -> Called:
        """Return the durations; what is bound otherwise stays bound."""
        groups = load_tensors(self.inputs)
        if "input" not in groups:
            raise RunError(f"{self.inputs} has no input_0, input_1, …; it holds {', '.join(groups) or 'nothing'}.")
        run, bind_ns = timed(lambda: artifact.session.bind(groups["input"]))
        produced, run_ns = run.timed() if isinstance(run, CallElsewhere) else timed(run)
        save_tensors(self.outputs, {"output": produced})
        return Called(bind_ns, run_ns)
