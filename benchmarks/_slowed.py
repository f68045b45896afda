"""A backend that is slower than ONNX Runtime by a known share, installed as a third party's package for a benchmark."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, final

from cross_backend.artifact import Artifact
from cross_backend.backend import THREADS, Backend, Calibration, Lowered, Missing, Option, Options, Session
from cross_backend.machine import Machine
from cross_backend.program.captured import Program
from cross_backend.registry import find_backend
from cross_backend.tensors import Tensors

INNER = "onnxruntime.cpu"
NAME = "slowed.cpu"


@final
class Slowed(Backend):
    """Runs the payload of ONNX Runtime, and after each call spins until it took so many percent longer."""

    name = NAME
    title = "ONNX Runtime, slowed"
    suffix = ".onnx"
    distributions = ("onnxruntime",)
    payload_of = INNER
    options: ClassVar = {"threads": THREADS, "percent": Option("how much slower", 5, at="load")}
    runtime_modules = ("onnxruntime",)

    def missing(self, machine: Machine) -> Missing | None:
        """Ask the backend inside."""
        return find_backend(INNER).missing(machine)

    def lower(self, program: Program, options: Options, stem: Path, calibration: Calibration) -> Lowered:
        """Ask the backend inside."""
        return find_backend(INNER).lower(program, {"threads": options["threads"]}, stem, calibration)

    def load(self, artifact: Artifact, options: Options) -> Session:
        """Open the backend inside, and slow it down."""
        return SlowedSession(artifact, options)


class SlowedSession(Session):
    """What happens to a call happens to its extra time in proportion, so the ratio stays whatever the machine does."""

    def _open(self) -> None:
        inside = replace(self.artifact, target=INNER)
        self._inner = find_backend(INNER).load(inside, {"threads": self.options["threads"]}).__enter__()

    def _bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        run, clock, factor = self._inner.bind(inputs), time.perf_counter_ns, 1 + self.options["percent"] / 100

        def call() -> Tensors:
            began = clock()
            outputs = run()
            end = began + (clock() - began) * factor
            while clock() < end:
                pass
            return outputs

        return call

    def _close(self) -> None:
        self._inner.__exit__(None, None, None)

    _inner: Session


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Install this backend where this process and its workers find it; to be entered before a backend is looked up."""
    with tempfile.TemporaryDirectory() as site:
        shutil.copyfile(__file__, Path(site) / "slowed_backend.py")
        info = Path(site) / "slowed-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: slowed\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[cross_backend.backends]\n{NAME} = slowed_backend:Slowed\n")
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (site, before)))
        sys.path.insert(0, site)
        try:
            yield
        finally:
            sys.path.remove(site)
            os.environ.pop("PYTHONPATH")
            if before is not None:
                os.environ["PYTHONPATH"] = before
