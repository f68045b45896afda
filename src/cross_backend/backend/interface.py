"""THE interface: a backend says what stops it here, lowers a program, and loads an artifact; the rest may be added."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from cross_backend.artifact import Artifact
from cross_backend.backend.formats import BundledPrograms, ForeignFiles
from cross_backend.backend.lifecycle import Lifecycle
from cross_backend.backend.options import Option, Options
from cross_backend.backend.profiles import Recorded, typical
from cross_backend.backend.session import Session
from cross_backend.errors import UnsupportedError, unknown_name
from cross_backend.names.precisions import MEANINGS
from cross_backend.placement import Placement
from cross_backend.records import Execution, Timing
from cross_backend.tensors import Tensors

if TYPE_CHECKING:
    from cross_backend.machine import Machine
    from cross_backend.program.captured import Program

Calibration = Sequence[Tensors]
"""Inputs on which a quantiser observes the range of activations; at least one."""

PRECISION = "precision"
"""The option whose values have one meaning on all backends: :mod:`~cross_backend.names.precisions`."""
Feature = Literal["onnx_program", "torch_program", "dynamic_shapes", "threads"]
"""What a backend may be unable to do anywhere; the key of ``Backend.limits``."""


@dataclass(frozen=True)
class Unavailable:
    """Why a backend cannot lower or run here, and the remedy."""

    reason: str
    """One clause."""
    remedy: str
    """Command or step; empty where there is none."""

    def __str__(self) -> str:
        return f"{self.reason}; {self.remedy}" if self.remedy else self.reason


@dataclass(frozen=True)
class Missing:
    """What stops a backend on this machine; lowering and running are distinguished."""

    lower: Unavailable | None = None
    """None where it can lower."""
    run: Unavailable | None = None
    """None where it can run."""

    def __bool__(self) -> bool:
        """Whether anything is missing."""
        return self.lower is not None or self.run is not None


@dataclass(frozen=True)
class Lowered:
    """What a backend's ``lower`` leaves behind."""

    payload: Path
    """The file, or the folder where there are several."""
    placement: Placement
    """Read back from that payload."""
    estimate: Mapping[str, float] = field(default_factory=dict)
    """What the vendor's compiler predicts, name with unit → value; shown as an estimate, never as a measurement."""


class Backend(ABC):
    """A runtime or compiler, stateless. Four names and three methods are abstract; the others have defaults.

    Example:
        >>> from cross_backend.registry import find_backend
        >>> backend = find_backend("xnnpack")
        >>> isinstance(backend, xb.Backend), backend.title, backend.suffix
        (True, 'XNNPACK (CPU)', '.pte')
    """

    name: ClassVar[str]
    """Its row in the registry."""
    title: ClassVar[str]
    """How tables call it: ``XNNPACK (CPU)``."""
    suffix: ClassVar[str]
    """Ending of its payload, ``.pte``; empty for a folder."""
    distributions: ClassVar[tuple[str, ...]]
    """Distributions that take part in lowering; their versions are part of an artifact's identity."""

    @abstractmethod
    def missing(self, machine: Machine) -> Missing | None:
        """Return what stops lowering or running here, without importing the vendor's package; None if nothing."""

    @abstractmethod
    def lower(self, program: Program, options: Options, stem: Path, calibration: Calibration) -> Lowered:
        """Lower a program and read the placement back from what was written.

        Args:
            program: captured once by the caller; not to be modified.
            options: every declared option.
            stem: path of the payload without its suffix; its folder exists.
            calibration: sample inputs, for quantisers.

        Raises:
            UnsupportedError, LowerError: with the vendor's reason.
        """

    @abstractmethod
    def load(self, artifact: Artifact, options: Options) -> Session:
        """Return a session for an artifact whose digest was checked; ``with`` opens it."""

    # --- May be added: what its targets may carry, what it can never do, and what its vendor says of its future

    options: ClassVar[Mapping[str, Option]] = {}
    """What its targets may carry."""
    lacks: ClassVar[Mapping[str, str]] = {}
    """Precision → why its vendor has it not, one clause; for those of which more is known than that it is absent."""
    limits: ClassVar[Mapping[Feature, str]] = {}
    """Feature → why not, anywhere."""
    otherwise: ClassVar[str] = ""
    """Backend for a program of which this one takes nothing."""
    lifecycle: ClassVar[Lifecycle] = Lifecycle()
    """What its vendor says of its future."""

    # --- May be added: where it is lowered and where it runs

    toolchain: ClassVar[str | None] = None
    """Private environment whose interpreter lowers it, and runs it unless ``run_toolchain`` says otherwise."""
    preload: ClassVar[tuple[str, ...]] = ()
    """Modules of the vendor's compiler that take seconds to import; workers begin with them during a capture."""
    runtime_modules: ClassVar[tuple[str, ...]] = ()
    """Modules that opening a session imports; imported before it: a cold start has two parts, importing and loading."""

    @property
    def run_toolchain(self) -> str | None:
        """Private environment whose interpreter runs it; None for the main one. It need not be able to lower."""
        return self.toolchain

    runtime_files: ClassVar[str | None] = None
    """Runtime that is no Python package, which ``toolchain add`` brings."""

    # --- May be added: what a payload is, and what it depends on

    payload_of: ClassVar[str | None] = None
    """Backend whose payload it runs unchanged: one file of the cache serves both. None where it makes its own."""
    payload_depends_on_cpu: ClassVar[bool] = False
    """Whether a payload made on one processor may not run on another."""
    foreign: ClassVar[ForeignFiles | None] = None
    """Payloads of others that it reads without a manifest."""
    bundled: ClassVar[BundledPrograms | None] = None
    """Files of its runtime that hold a payload and its test cases."""

    def depends_on(self, options: Options) -> str | None:
        """Name what a payload is made for beside the processor: a graphics driver, say; part of its identity here."""
        return None

    def code_in(self, artifact: Artifact) -> str | None:
        """Return what in a payload is code, which runs when it is opened; None where it is data.

        Code is opened only if this machine made it, or the user trusts it (``trust.py``).

        Raises:
            CrossBackendError: the payload is damaged.
        """
        return None

    takes_state: ClassVar[Literal["program", "tensors"]] = "program"
    """How a program with state is lowered: as it is, its runtime keeping the buffers that a call changes; or with the
    state as its last inputs and its next state as its last outputs, which the session hands on."""

    # --- May be added: what its runtime reports

    def record(self, artifact: Artifact, options: Options, inputs: Tensors, runs: int) -> Recorded:
        """Run with the runtime's own profiler, and return its rows for each run, in the order of the operators.

        Args:
            artifact: its digest was checked.
            options: every declared option.
            inputs: flat positional tensors.
            runs: profiled runs, after one to warm up.

        Raises:
            UnsupportedError: the runtime has none, or none that is read.
            LoadError, RunError: as a session.
        """
        raise UnsupportedError(f"{self.name} has no profiler that this version reads.")

    def record_calls(self, artifact: Artifact, options: Options, inputs: Tensors, runs: int) -> Recorded:
        """Return one row for each operator as a whole, where ``record`` takes operators apart."""
        return self.record(artifact, options, inputs, runs)

    def execution(self, artifact: Artifact, options: Options, inputs: Tensors) -> Execution | None:
        """Return where the work really runs, from the runtime's own records; None where it cannot run elsewhere.

        Arguments and errors are those of ``record``; the inputs are for runtimes that only tell after a run.
        """
        return None

    # --- May be added: how its vendor reproduces a fault

    def reproduction(self, options: Options) -> Sequence[str]:
        """Return lines of Python that run a program with the vendor's package alone, for its tracker.

        They follow ``program``, a ``torch.export.ExportedProgram`` of float tensors, and ``inputs``, a tuple of
        contiguous tensors. They leave the outputs in ``got``, a sequence of tensors or arrays, leave ``model``,
        ``program``, ``inputs`` and ``expected`` as they are, and write temporary files only. They import torch and the
        vendor's packages only.

        Raises:
            UnsupportedError: there are none for this backend or these options.
        """
        raise UnsupportedError(f"{self.title} cannot be called from a short script of its own yet.")

    # --- The same for all

    def profile(self, artifact: Artifact, options: Options, inputs: Tensors, runs: int) -> tuple[Timing, ...]:
        """Return one row per kind of operator, most expensive first; see ``record``."""
        return typical(self.record(artifact, options, inputs, runs))

    @property
    def precisions(self) -> tuple[str, ...]:
        """What ``?precision=`` may be, its default first; float32 alone where it is no option."""
        option = self.options.get(PRECISION)
        if option is None:
            return ("fp32",)
        return (str(option.default), *(one for one in option.choices if one != option.default))

    def parse_options(self, given: Mapping[str, str]) -> Options:
        """Check a target's options and fill in defaults.

        Raises:
            UsageError: an unknown option, or a value that is not allowed.
            UnsupportedError: a precision of the grammar that this backend lacks.
        """
        asked = given.get(PRECISION)
        if asked is not None and asked in MEANINGS and asked not in self.precisions:
            why = f": {self.lacks[asked]}" if asked in self.lacks else ""
            raise UnsupportedError(f"{self.name} has no {asked}{why}. It has {', '.join(self.precisions)}.")
        for key in given:
            if key not in self.options:
                raise unknown_name(f"option of {self.name}:", key, self.options)
        return {
            key: option.parse(key, given[key]) if key in given else option.default
            for key, option in self.options.items()
        }
