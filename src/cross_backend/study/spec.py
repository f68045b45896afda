"""Study: workloads × batch sizes × threads × targets × precisions as a value, and the panels that it becomes."""

from __future__ import annotations

import contextlib
import functools
import glob
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, TypeAdapter, WrapValidator
from pydantic.dataclasses import dataclass

from cross_backend.errors import CrossBackendError, UsageError
from cross_backend.generation.rows import PARTS
from cross_backend.places.address import parse
from cross_backend.records import PanelKey
from cross_backend.study import fields
from cross_backend.study.checked import EMPTY, NULLABLE, STRICT, Checked, Many, Maybe, Some, read_by
from cross_backend.study.fields import number, share, whole
from cross_backend.study.machines import AnyClass, MachineClass

if TYPE_CHECKING:
    from cross_backend.workloads import Source

SCHEMA = 1
"""Version of a study's JSON. History: 1, the first."""

HERE = ("local",)
MAX_CELLS = 100_000
"""Workloads × batch sizes × threads × targets × precisions; a study file may be a stranger's."""
_CHECKPOINTS = {".bin", ".ckpt", ".pt", ".pth", ".safetensors"}
"""Endings of files with weights; other texts may be a published name, ``IMAGENET1K_V1`` or ``owner/name``."""

Batch = Annotated[int, read_by(whole(1, 65_536))]
_Instrument = Annotated[str, read_by(fields.text, fields.known_instrument)]


@dataclass(frozen=True, config=STRICT)
class StudySettings(Checked):
    """How to measure; values may be given as texts, as in a study file."""

    where: ClassVar[str] = "settings"

    seconds: Annotated[float, read_by(number(0.1, 86_400))] = 5.0
    """Seconds of timed calls of each target in each panel, all launches together."""
    margin: Maybe[Annotated[float, read_by(fields.MARGIN)]] = None
    """Launches repeat until the ratio of every target to the fastest has an interval of this half width, or is clearly
    apart from 1. A panel of one target stops after ``launches``. None: ``launches``, no more."""
    launches: Annotated[int, read_by(whole(1, 1000))] = 3
    """Minimum process launches per target."""
    max_launches: Annotated[int, read_by(whole(1, 1000))] = 15
    """Maximum process launches per target where ``margin`` is not reached."""
    seed: Annotated[int, read_by(whole(0, 2**31 - 1))] = 0
    """Seed of the visiting order."""
    timeout_s: Annotated[float, read_by(number(1, 604_800))] = 600.0
    """Seconds to wait for a lowering or an answer of a worker."""
    memory_limit: Maybe[Annotated[int, read_by(fields.size(64_000_000))]] = None
    """Maximum memory of a worker, in bytes or as ``4 GB``. None: no limit."""
    instruments: Annotated[Many[_Instrument], AfterValidator(fields.without_always)] = (
        "accuracy",
        "energy",
        "memory",
        "throughput",
    )
    """Measured after the last launch. Latency and cold start are always measured."""
    min_on_device: Annotated[float, read_by(share(0, 1, "90%"))] = 0.9
    """A target with a smaller share of its work on the requested device is shown, not ranked."""
    min_coverage: Annotated[float, read_by(share(0, 1, "50%"))] = 0.0
    """A backend that delegates a smaller share of the program fails."""
    together: Maybe[Annotated[int, read_by(whole(1, 1000))]] = None
    """Maximum targets of a panel that are open at once; a larger launch runs in parts. None: all."""
    localize: Annotated[bool, read_by(fields.truth)] = False
    """Find the operator that each target with wrong outputs computes wrongly."""
    jobs: Annotated[int, read_by(whole(0, 4096))] = 0
    """Maximum worker processes that lower. 0: one per processor."""

    def __post_init__(self) -> None:
        if self.margin is not None and self.max_launches < self.launches:
            raise ValueError(f"max_launches: {self.max_launches} is fewer than the {self.launches} launches.")


@dataclass(frozen=True, config=STRICT)
class StudyOutput(Checked):
    """Where results go; not part of what is measured."""

    where: ClassVar[str] = "output"

    reports: Many[Annotated[str, read_by(fields.report)]] = ()
    """Files that end in .html, .md or .json, in the folder of the study file or in ``--output-dir``."""
    db: Maybe[Annotated[str, read_by(fields.database)]] = None
    """A SQLite file or ``postgresql://HOST/NAME``. None: SQLite in the user data folder."""


@dataclass(frozen=True, config=STRICT)
class WorkloadSpec(Checked):
    """One row of a study."""

    where: ClassVar[str] = "a workload"

    model: str
    """A built-in name, or the absolute path of a file (``…/m.onnx``, ``…/m.pt2``, ``…/m.py:function``)."""
    name: str
    """What results call it."""
    weights: str | None = None
    """Absolute path of a checkpoint or of a folder that holds one, or a published weights name."""
    content: str | None = None
    """SHA-256 of the files above; None where there is none. Results of a changed file are not mixed."""
    batch_sizes: Many[Batch] = ()
    """Instead of the study's, where a model is too large for them; empty: the study's."""
    inputs: Many[str] = ()
    """Absolute paths of inputs of the user's own, which are verified, too."""
    generate: Many[Annotated[str, read_by(fields.length)]] = ()
    """``PROMPT:NEW``: text is generated instead of single calls, and prefill and decode are panels of their own."""

    @classmethod
    def find(
        cls,
        model: str,
        weights: str | None = None,
        folder: Path = Path(),
        batch_sizes: Sequence[int] = (),
        inputs: Sequence[str] = (),
        generate: Sequence[str] = (),
    ) -> WorkloadSpec:
        """Look a model up; relative paths start at ``folder``. Imports no torch.

        Raises:
            UsageError: there is no such model, file or ending.
        """
        from cross_backend.workloads import decoder_of, encoder_of, file_of, find_workload

        model = decoder_of(fields.text(model)) if generate else fields.text(model)
        if generate and (encoder := encoder_of(model)):
            raise UsageError(
                f"{model}: a panel of a study is one program, and this model generates with two, {encoder} and itself. "
                f"Use compare {model} --generate {generate[0]}."
            )
        file = file_of(model)
        if file is not None:
            _, mark, function = model.rpartition(":") if file.suffix == ".py" else ("", "", "")
            model = f"{(folder / file).resolve()}{mark}{function}"
        checkpoint = None
        if weights is not None:
            weights = fields.text(weights)
            checkpoint = (folder / weights).resolve()
            if checkpoint.exists():
                weights = str(checkpoint)
            elif not re.fullmatch(r"[\w-][\w.-]*(/[\w.-]+)?", weights) or Path(weights).suffix in _CHECKPOINTS:
                raise UsageError(f"weights {checkpoint} do not exist.")
        own = tuple((folder / path).resolve() for path in inputs)
        source = find_workload(model, weights, own=own)
        read = [path for path in (file_of(model), checkpoint, *own) if path is not None and path.exists()]
        content = _digest(read) if read else None
        return cls(model, source.name, weights, content, tuple(batch_sizes), tuple(map(str, own)), tuple(generate))

    def source(self, batch: int) -> Source:
        """Find the workload at a batch size."""
        from cross_backend.workloads import find_workload

        return find_workload(self.model, self.weights, batch, [Path(path) for path in self.inputs])


def _digest(paths: Sequence[Path]) -> str:
    """Digest files, all files of folders, and ONNX files with their external data beside them (``m.onnx.data``)."""
    digest = hashlib.sha256()
    for path in paths:
        if path.is_dir():
            beside = sorted(path.rglob("*"))
        else:
            beside = sorted(path.parent.glob(f"{glob.escape(path.name)}*")) if path.suffix == ".onnx" else [path]
        for one in beside:
            if one.is_file():
                with one.open("rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


@dataclass(frozen=True, config=STRICT)
class PanelSpec:
    """One workload at one batch size and number of threads, on all targets: what is measured interleaved."""

    workload: WorkloadSpec
    batch: int
    threads: int
    targets: tuple[str, ...]
    """Targets with their precisions, without duplicates."""
    generate: str | None = None
    """``PROMPT:NEW`` of a panel that generates text."""
    part: str | None = None
    """Which part of its sequences is ranked: ``prefill`` or ``decode``."""

    @functools.cached_property
    def key(self) -> PanelKey:
        """Under which it is stored, and what progress calls it."""
        name = self.workload.name
        if self.generate is not None:
            name = f"{name}_{self.generate.replace(':', '_')}_{self.part}"
        return PanelKey(name, self.batch, self.threads)


def _expanded(targets: Sequence[str], precisions: Sequence[str]) -> tuple[str, ...]:
    """Return every target at every precision, without duplicates, in the order of the targets.

    A target that names its own precision stays as it is. A precision that a backend does not have is kept:
    exporting it says so, and the row stays in the table.
    """
    from cross_backend.registry import resolve, with_precision

    found: dict[object, str] = {}
    for asked in (with_precision(text, precision) for text in targets for precision in precisions or (None,)):
        same: object = asked
        with contextlib.suppress(CrossBackendError):
            resolved = resolve(asked)
            same = resolved.target.name, tuple(sorted(resolved.options.items()))
        found.setdefault(same, asked)
    return tuple(found.values())


@dataclass(frozen=True, config=STRICT)
class StudySpec(Checked):
    """Pure data; equal values measure the same."""

    where: ClassVar[str] = "a study"

    name: Annotated[str, read_by(fields.name)]
    """Name in reports and in ``study status``. Default: the name of the file."""
    workloads: Some[Annotated[WorkloadSpec, WrapValidator(lambda row, check, info: (info.context or check)(row))]]
    """Models: a built-in name, a file, or a mapping with ``model``. Paths are relative to the study file."""
    targets: Some[Annotated[str, read_by(fields.target, fields.known_target)]]
    """Backends with options, as ``xnnpack?threads=2``."""
    batch_sizes: Some[Batch] = (1,)
    """Batch sizes."""
    precisions: Many[Annotated[str, read_by(fields.text, fields.known_precision)]] = ()
    """Precisions of every target that names none. Empty: each target's own."""
    threads: Some[Annotated[int, read_by(whole(1, 4096))]] = (1,)
    """CPU threads of every target that names none."""
    settings: Annotated[StudySettings, EMPTY, NULLABLE] = field(default_factory=StudySettings)
    """How to measure."""
    output: Annotated[StudyOutput, EMPTY, NULLABLE] = field(default_factory=StudyOutput)
    """Where results go."""
    places: Some[Annotated[str, read_by(fields.place)]] = HERE
    """Machines that measure; each measures the whole study."""
    machines: Many[AnyClass] = ()
    """Classes of a cluster's machines; each class measures the whole study."""

    def __post_init__(self) -> None:
        cells = sum(
            len(PARTS) * len(one.generate) or len(one.batch_sizes or self.batch_sizes) for one in self.workloads
        )
        cells *= len(self.threads)
        cells *= len(self.targets) * max(1, len(self.precisions))
        if cells > MAX_CELLS:
            raise ValueError(f"workloads: {cells:,} cells are more than the {MAX_CELLS:,} that a study may have.")
        seen: dict[str, WorkloadSpec] = {}
        names = [one.name for one in self.machines]
        if len(set(names)) < len(names):
            raise ValueError("machines: two classes have the same name, by which results tell them apart.")
        for one in self.workloads:
            if one.name in seen:
                raise ValueError(
                    f"workloads: {seen[one.name].model} and {one.model} are both called {one.name!r} in results; "
                    "put them into two studies."
                )
            if one.generate and one.batch_sizes not in {(), (1,)}:
                raise ValueError(f"workloads: {one.name} generates text with a batch of 1. Leave out batch_sizes.")
            if one.generate and (self.places != HERE or self.machines):
                raise ValueError(f"workloads: {one.name} generates text on this machine only. Leave out generate.")
            seen[one.name] = one

    def check_names(self) -> None:
        """Look targets, precisions and instruments up here and now; a study file's were looked up where it was read.

        Raises:
            UsageError: one does not exist.
        """
        for key, values, known in (
            ("targets", self.targets, fields.known_target),
            ("precisions", self.precisions, fields.known_precision),
            ("instruments", self.settings.instruments, fields.known_instrument),
        ):
            for value in values:
                try:
                    known(value)
                except UsageError as error:
                    raise UsageError(f"{key}: {error}") from error

    def at(self, place: str) -> StudySpec:
        """Return the study of one machine."""
        return replace(self, places=(place,))

    def of(self, machine: MachineClass) -> StudySpec:
        """Return the study of one class of machines."""
        return replace(self, machines=(machine,))

    @property
    def where_measured(self) -> str:
        """What results call the machine of a study of one machine or class."""
        return self.machines[0].name if self.machines else str(parse(self.places[0]))

    def panels(self) -> tuple[PanelSpec, ...]:
        """Return what is measured, in order: workload by workload, batch by batch, threads by threads."""
        targets = _expanded(self.targets, self.precisions)
        return tuple(
            PanelSpec(workload, batch, threads, targets, length, part)
            for workload in self.workloads
            for batch in ((1,) if workload.generate else workload.batch_sizes or self.batch_sizes)
            for length in workload.generate or (None,)
            for part in (PARTS if length is not None else (None,))
            for threads in self.threads
        )

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits of what is measured: not the name, the outputs, the jobs, or where files lie."""
        settings = asdict(replace(self.settings, jobs=0))
        settings.pop("localize")  # it changes nothing of what is measured
        settings |= {} if settings.pop("together") is None else {"together": self.settings.together}  # as before it was
        panels = [
            {
                "model": one.workload.name if one.workload.content else one.workload.model,
                "weights": None if Path(one.workload.weights or "").is_absolute() else one.workload.weights,
                "content": one.workload.content,
                "batch": one.batch,
                "threads": one.threads,
                "targets": one.targets,
                **({"generate": one.generate, "part": one.part} if one.generate else {}),
            }
            for one in self.panels()
        ]
        row = {"schema": SCHEMA, "settings": settings, "panels": panels}
        row |= {"places": self.places} if self.places != HERE else {}
        row |= {"machines": [asdict(one) for one in self.machines]} if self.machines else {}
        text = json.dumps(row, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON that :meth:`from_json` reads."""
        return {"schema": SCHEMA, **json.loads(json.dumps(asdict(self)))}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> StudySpec:
        """Read what :meth:`to_json` gave; names are not looked up, for what was measured may be gone since.

        Raises:
            UsageError: it is none, or another version's.
        """
        if not isinstance(row, Mapping) or "schema" not in row:
            raise UsageError("not a study: it has no schema.")
        if row["schema"] != SCHEMA:
            raise UsageError(f"a study of version {row['schema']!r} is not read by this one, which reads {SCHEMA}.")
        return TypeAdapter(cls).validate_python({key: value for key, value in row.items() if key != "schema"})
