"""THE interface: what every backend is, and what an open artifact can do."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from cross_backend.artifact import Artifact, Placement
from cross_backend.errors import CrossBackendError, RunError, UnsupportedError, UsageError, one_line, unknown_name
from cross_backend.records import Execution, Timing
from cross_backend.structure import Structure
from cross_backend.tensors import Tensors, TensorSpec, check_inputs, in_kind_of

if TYPE_CHECKING:
    from cross_backend.machine import Machine
    from cross_backend.program.capture import Program

Feature = Literal["onnx_program", "torch_program", "dynamic_shapes", "threads"]
"""What a backend may be unable to do anywhere; the key of ``Backend.limits``."""

Options = Mapping[str, Any]
"""Validated options of a target: every key that the backend declares, with its value or default."""


Calibration = Sequence[Tensors]
"""Inputs on which a quantiser observes the range of activations; at least one."""


@dataclass(frozen=True)
class Option:
    """One option that a target of this backend may carry."""

    help: str
    """What it does, in one line."""
    default: int | str | None
    """Value where the target names none."""
    choices: tuple[str, ...] = ()
    """Allowed texts; empty for a positive whole number."""
    at: Literal["lower", "load"] = "lower"
    """Whether it shapes the payload, or only how a session opens it."""

    def parse(self, key: str, text: str) -> int | str:
        """Convert and check a text.

        Raises:
            UsageError: not an allowed value.
        """
        if self.choices:
            if text not in self.choices:
                raise unknown_name(f"value for option {key!r}:", text, self.choices)
            return text
        if not text.isdecimal() or not 1 <= int(text) <= 4096:
            raise UsageError(f"option {key!r} takes a whole number from 1 to 4096, not {text!r}.")
        return int(text)


THREADS = Option("CPU threads that a session uses; the runtime's own choice where not given", None, at="load")


@dataclass(frozen=True)
class Gap:
    """Why something cannot be done here, and what mends it."""

    reason: str
    """One clause."""
    remedy: str
    """The command or step that mends it; empty where nothing does."""

    def __str__(self) -> str:
        return f"{self.reason}; {self.remedy}" if self.remedy else self.reason


@dataclass(frozen=True)
class Missing:
    """What stops a backend on this machine; lowering and running are told apart."""

    lower: Gap | None = None
    """None where it can lower."""
    run: Gap | None = None
    """None where it can run."""


@dataclass(frozen=True)
class Lifecycle:
    """When a vendor began a backend's end, to be read against the version that is installed."""

    distribution: str = ""
    """Whose versions these are."""
    deprecated: str | None = None
    """First version that warns."""
    removed: str | None = None
    """First version without it."""
    instead: str = ""
    """The ways out."""

    def read(self, installed: str | None) -> str:
        """Return ``supported``, ``deprecated …`` or ``removed …`` for an installed version; the newest where None."""
        if not self.removed and not self.deprecated:
            return "supported"
        from packaging.version import Version

        here = Version(installed) if installed else None
        seen = f" ({installed} is installed here)" if installed else ""
        ways = f"; ways out: {self.instead}" if self.instead else ""
        if self.removed and (here is None or here >= Version(self.removed)):
            return f"removed in {self.distribution} {self.removed}{seen}{ways}"
        if self.deprecated and (here is None or here >= Version(self.deprecated)):
            end = f", removed in {self.removed}" if self.removed else ""
            return f"deprecated since {self.distribution} {self.deprecated}{end}{seen}{ways}"
        return "supported"


@dataclass(frozen=True)
class Lowered:
    """What a backend's ``lower`` leaves behind."""

    payload: Path
    """The file, or the folder where there are several."""
    placement: Placement
    """Read back from that payload."""
    estimate: Mapping[str, float] = field(default_factory=dict)
    """What the vendor's compiler predicts, name with unit → value; shown as an estimate, never as a measurement."""


@dataclass(frozen=True)
class Rejected:
    """A candidate that ``load_best`` passed over."""

    target: str
    reason: str


class Session(ABC):
    """An open artifact on a device, held only inside ``with``.

    Threads may call one session at the same time: the calls take turns. A bound call belongs to one thread, which calls
    nothing else of its session meanwhile: it takes no turn, so that it can be timed.
    """

    def __init__(self, artifact: Artifact, options: Options) -> None:
        self.artifact = artifact
        self.options = options
        self.target = artifact.target
        self.inputs: tuple[TensorSpec, ...] = artifact.inputs
        self.outputs: tuple[TensorSpec, ...] = artifact.outputs
        self.structure = artifact.structure or Structure.of_flat([s.name for s in self.inputs], len(self.outputs))
        self._turn = threading.Lock()
        self.rejected: tuple[Rejected, ...] = ()
        self.is_open = False

    def __enter__(self) -> Self:
        with self._turn:
            if not self.is_open:
                self._open()
                self.is_open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._turn:
            if self.is_open:
                self.is_open = False
                self._close()

    def bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        """Check, convert and copy inputs; return a call that runs the program on them.

        The call does no conversion and returns when the outputs are there, as the runtime's own
        tensors, which may be overwritten by the next call.

        Args:
            inputs: flat positional tensors, NumPy or torch.

        Raises:
            RunError: they do not fit, or the session is not open.
        """
        if not self.is_open:
            raise RunError("the session is closed; use it inside 'with xb.load(...) as session:'.")
        check_inputs(self.inputs, inputs)
        try:
            return self._bind(inputs)
        except CrossBackendError:
            raise
        except Exception as error:
            raise RunError(f"{self.target} cannot take these inputs: {one_line(error)}") from error

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run once: takes what the model takes, or its flat tensors, and gives what it gives; torch in, torch out.

        Of a model's own classes, named tuples come back as such, dataclasses as dicts.

        Raises:
            RunError: it is not what the model takes, or the runtime failed.
        """
        inputs = self.structure.take(args, kwargs)
        with self._turn:  # a runtime has one memory for its outputs, which are copied before the next call
            run = self.bind(inputs)
            try:
                outputs = in_kind_of(inputs, run())
            except CrossBackendError:
                raise
            except Exception as error:
                raise RunError(f"{self.target} failed: {one_line(error)}") from error
        if len(outputs) != len(self.outputs):
            raise RunError(f"{self.target} gave {len(outputs)} output(s) instead of {len(self.outputs)}.")
        return self.structure.give(outputs)

    @abstractmethod
    def _open(self) -> None:
        """Open the artifact on the device; vendor errors become LoadError."""

    @abstractmethod
    def _bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        """Do ``bind`` for inputs that were checked."""

    def _close(self) -> None:  # noqa: B027  most runtimes free on garbage collection
        """Release the device."""


class Backend(ABC):
    """Stateless: says whether it is usable here, lowers a program, loads an artifact. One file each."""

    name: ClassVar[str]
    """Its row in the registry."""
    title: ClassVar[str]
    """How tables call it: ``XNNPACK (CPU)``."""
    suffix: ClassVar[str]
    """Ending of its payload, ``.pte``; empty for a folder."""
    distributions: ClassVar[tuple[str, ...]]
    """Distributions that take part in lowering; their versions are part of an artifact's identity."""
    options: ClassVar[Mapping[str, Option]] = {}
    """What its targets may carry."""
    limits: ClassVar[Mapping[Feature, str]] = {}
    """Feature → why not, anywhere."""
    lifecycle: ClassVar[Lifecycle] = Lifecycle()
    """What its vendor says of its future."""
    toolchain: ClassVar[str | None] = None
    """Private environment whose interpreter lowers it, and runs it unless ``run_toolchain`` says otherwise."""
    payload_of: ClassVar[str | None] = None
    """Backend whose payload it runs unchanged: one file of the cache serves both. None where it makes its own."""
    preload: ClassVar[tuple[str, ...]] = ()
    """Modules of the vendor's compiler that take seconds to import; workers begin with them during a capture."""
    bundles: ClassVar[bool] = False
    """Whether :meth:`write_bundled` can store the sample inside the program."""
    payload_depends_on_cpu: ClassVar[bool] = False
    """Whether a payload made on one processor may not run on another."""
    runtime_modules: ClassVar[tuple[str, ...]] = ()
    """Modules that opening a session imports; imported before it, so that a cold start tells importing from loading."""

    @property
    def run_toolchain(self) -> str | None:
        """Private environment whose interpreter runs it; None for the main one. It need not be able to lower."""
        return self.toolchain

    def depends_on(self, options: Options) -> str | None:
        """Name what a payload is made for beside the processor: a graphics driver, say; part of its identity here."""
        return None

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

    def code_in(self, artifact: Artifact) -> str | None:
        """Return what in a payload is code, which runs when it is opened; None where it is data.

        Code is opened only if this machine made it, or the user trusts it (``trust.py``).

        Raises:
            CrossBackendError: the payload is damaged.
        """
        return None

    def profile(self, artifact: Artifact, options: Options, inputs: Tensors, runs: int) -> tuple[Timing, ...]:
        """Run with the runtime's own profiler, and return what it says, most expensive first.

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

    def execution(self, artifact: Artifact, options: Options, inputs: Tensors) -> Execution | None:
        """Return where the work really runs, from the runtime's own records; None where it cannot run elsewhere.

        Args:
            artifact: its digest was checked.
            options: every declared option.
            inputs: flat positional tensors, for runtimes that only tell after a run.

        Raises:
            LoadError, RunError: as a session.
        """
        return None

    def write_bundled(self, artifact: Artifact, path: Path) -> None:
        """Write the payload and the sample as one of ExecuTorch's bundled programs.

        Raises:
            UnsupportedError: the backend has no such file, or the artifact no sample.
        """
        raise UnsupportedError(f"{self.name} has no bundled programs; only ExecuTorch has them.")

    def describe(self, payload: Path) -> Artifact:
        """Return what a payload that no manifest describes takes and gives, read from the file; there is no sample.

        Raises:
            UnsupportedError: this backend's files do not tell.
            LoadError: the runtime refuses it.
        """
        raise UnsupportedError(f"{self.name} cannot read {payload.name} without its manifest; export it again.")

    def read_bundled(self, path: Path, folder: Path) -> tuple[Artifact, tuple[Path, ...]]:
        """Take a bundled program apart: an artifact in ``folder``, and the tensor files of its test cases.

        A tensor file has the groups ``input`` and ``expected``; the first is the artifact's sample.

        Raises:
            UnsupportedError: the backend has no such file, or it holds what cannot be verified.
            ArtifactError: it is none, or damaged.
        """
        raise UnsupportedError(f"{self.name} has no bundled programs; only ExecuTorch has them.")

    def parse_options(self, given: Mapping[str, str]) -> Options:
        """Check a target's options and fill in defaults.

        Raises:
            UsageError: an unknown option, or a value that is not allowed.
        """
        for key in given:
            if key not in self.options:
                raise unknown_name(f"option of {self.name}:", key, self.options)
        return {
            key: option.parse(key, given[key]) if key in given else option.default
            for key, option in self.options.items()
        }
