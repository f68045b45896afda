"""Study: workloads × batch sizes × threads × targets × precisions as a value, and the panels that it becomes."""

from __future__ import annotations

import glob
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from cross_backend.errors import UsageError
from cross_backend.study import fields
from cross_backend.study.fields import Field

SCHEMA = 1
"""Version of a study's JSON. History: 1, the first."""

MAX_CELLS = 100_000
"""Workloads × batch sizes × threads × targets × precisions; a study file may be a stranger's."""
_CHECKPOINTS = {".bin", ".ckpt", ".pt", ".pth", ".safetensors"}
"""Endings of files with weights; other texts may be a published name, ``IMAGENET1K_V1`` or ``owner/name``."""

SETTINGS: dict[str, Field] = {
    "seconds": Field("time box of timed calls of each target in each panel", fields.number(0.1, 86_400)),
    "margin": Field(
        "stop a panel when the interval of every ratio to the fastest is within this share, or clearly apart from 1",
        fields.share(0.001, 0.5, "1%"),
        may_be_empty=True,
    ),
    "launches": Field("fewest times that every target is started anew", fields.whole(1, 1000)),
    "max_launches": Field("most launches with a margin", fields.whole(1, 1000)),
    "seed": Field("of the order in which targets take turns", fields.whole(0, 2**31 - 1)),
    "timeout_s": Field("longest lowering or answer of a worker", fields.number(1, 604_800)),
    "memory_limit": Field("most memory of a worker that measures: 4 GB", fields.size(64_000_000), may_be_empty=True),
    "instruments": Field(
        "taken after the last launch, beside latency and cold start",
        fields.text,
        many=True,
        may_be_empty=True,
        known=fields.known_instrument,
    ),
    "min_on_device": Field("smallest share of the work on the asked device to be ranked", fields.share(0, 1, "90%")),
    "min_coverage": Field("smallest share of a program that a backend must take itself", fields.share(0, 1, "50%")),
    "jobs": Field("most worker processes that lower; 0 for one per processor", fields.whole(0, 4096)),
}
OUTPUT: dict[str, Field] = {
    "reports": Field("files to write: .html, .md, .json", fields.report, many=True, may_be_empty=True),
    "db": Field("where results are stored: a file, or postgresql://HOST/NAME", fields.database, may_be_empty=True),
}
WORKLOAD: dict[str, Field] = {
    "batch_sizes": Field("instead of the study's", fields.whole(1, 65_536), many=True, may_be_empty=True),
}
STUDY: dict[str, Field] = {
    "name": Field("what reports call it; the file's name where not given", fields.name),
    "targets": Field("backends with options", fields.target, many=True, known=fields.known_target),
    "batch_sizes": Field("extents of the batch dimension", fields.whole(1, 65_536), many=True),
    "precisions": Field(
        "asked of every target that names none; each target's own where not given",
        fields.text,
        many=True,
        may_be_empty=True,
        known=fields.known_precision,
    ),
    "threads": Field("CPU threads of every target that names none", fields.whole(1, 4096), many=True),
}


def _check(row: object, table: Mapping[str, Field]) -> None:
    """Replace every field of a frozen row by its checked value."""
    for key, one in table.items():
        try:
            object.__setattr__(row, key, one.value(getattr(row, key)))
        except UsageError as error:
            raise UsageError(f"{key}: {error}") from error


@dataclass(frozen=True)
class StudySettings:
    """How to measure; values may be given as texts, as in a study file."""

    seconds: float = 5.0
    """Time box of the timed calls of each target in each panel, all launches together."""
    margin: float | None = None
    """Half the width of the interval of each target's ratio to the fastest, at which launching stops, or where that is
    clearly apart; a target that is alone stops after ``launches``. None: ``launches``, no more."""
    launches: int = 3
    """Fewest times that every target is started anew."""
    max_launches: int = 15
    """Most launches where the margin is not reached."""
    seed: int = 0
    """Of the order of turns."""
    timeout_s: float = 600.0
    """Longest lowering, or answer of a worker."""
    memory_limit: int | None = None
    """Most memory of a worker, bytes; None for no limit."""
    instruments: tuple[str, ...] = ("accuracy", "energy", "memory", "throughput")
    """Taken after the last launch; latency and cold start are always taken."""
    min_on_device: float = 0.9
    """Smallest share of the work on the asked device with which a target is ranked."""
    min_coverage: float = 0.0
    """Smallest share of a program that a backend must take itself."""
    jobs: int = 0
    """Most worker processes that lower; 0 for one per processor."""

    def __post_init__(self) -> None:
        _check(self, SETTINGS)
        object.__setattr__(self, "instruments", tuple(one for one in self.instruments if one not in fields.ALWAYS))
        if self.margin is not None and self.max_launches < self.launches:
            raise UsageError(f"max_launches: {self.max_launches} is fewer than the {self.launches} launches.")


@dataclass(frozen=True)
class StudyOutput:
    """Where results go; not part of what is measured."""

    reports: tuple[str, ...] = ()
    """Files, relative to the current folder; the ending says the kind."""
    db: str | None = None
    """A file of SQLite or a URL; None for the default place."""

    def __post_init__(self) -> None:
        _check(self, OUTPUT)


@dataclass(frozen=True)
class WorkloadSpec:
    """One row of a study."""

    model: str
    """A built-in name, or the absolute path of a file (``…/m.onnx``, ``…/m.pt2``, ``…/m.py:function``)."""
    name: str
    """What results call it."""
    weights: str | None = None
    """Absolute path of a checkpoint or of a folder that holds one, or a published weights name."""
    content: str | None = None
    """SHA-256 of the files above; None where there is none. Results of a changed file are not mixed."""
    batch_sizes: tuple[int, ...] = ()
    """Instead of the study's, where a model is too large for them; empty: the study's."""

    def __post_init__(self) -> None:
        _check(self, WORKLOAD)

    @classmethod
    def find(
        cls, model: str, weights: str | None = None, folder: Path = Path(), batch_sizes: Sequence[int] = ()
    ) -> WorkloadSpec:
        """Look a model up; relative paths start at ``folder``. Imports no torch.

        Raises:
            UsageError: there is no such model, file or ending.
        """
        from cross_backend.workloads import file_of, find_workload

        model = fields.text(model)
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
        source = find_workload(model, weights)
        read = [path for path in (file_of(model), checkpoint) if path is not None and path.exists()]
        return cls(model, source.name, weights, _digest(read) if read else None, tuple(batch_sizes))


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


@dataclass(frozen=True)
class PanelSpec:
    """One workload at one batch size and number of threads, on all targets: what is measured interleaved."""

    workload: WorkloadSpec
    batch: int
    threads: int
    targets: tuple[str, ...]
    """Targets with their precisions, without duplicates."""

    @property
    def model(self) -> str:
        """The workload's model."""
        return self.workload.model

    @property
    def weights(self) -> str | None:
        """The workload's weights."""
        return self.workload.weights

    @property
    def title(self) -> str:
        """What progress and tables call it."""
        return f"{self.workload.name}, batch {self.batch}, {self.threads} thread{'s' if self.threads > 1 else ''}"


@dataclass(frozen=True)
class Study:
    """Pure data; equal values measure the same."""

    name: str
    """What reports and ``study status`` call it."""
    workloads: tuple[WorkloadSpec, ...]
    targets: tuple[str, ...]
    """As the user wrote them."""
    batch_sizes: tuple[int, ...] = (1,)
    precisions: tuple[str, ...] = ()
    """Asked of every target that names none; empty: each target's own."""
    threads: tuple[int, ...] = (1,)
    """CPU threads of every target that names none."""
    settings: StudySettings = field(default_factory=StudySettings)
    output: StudyOutput = field(default_factory=StudyOutput)

    def __post_init__(self) -> None:
        _check(self, STUDY)
        object.__setattr__(self, "workloads", tuple(dict.fromkeys(self.workloads)))
        if not self.workloads:
            raise UsageError("workloads: the list is empty.")
        cells = sum(len(one.batch_sizes or self.batch_sizes) for one in self.workloads) * len(self.threads)
        cells *= len(self.targets) * max(1, len(self.precisions))
        if cells > MAX_CELLS:
            raise UsageError(f"workloads: {cells:,} cells are more than the {MAX_CELLS:,} that a study may have.")
        seen: dict[str, WorkloadSpec] = {}
        for one in self.workloads:
            if one.name in seen:
                raise UsageError(
                    f"workloads: {seen[one.name].model} and {one.model} are both called {one.name!r} in results; "
                    "put them into two studies."
                )
            seen[one.name] = one

    def check_names(self) -> None:
        """Look targets, precisions and instruments up here and now; a study file's were looked up where it was read.

        Raises:
            UsageError: one does not exist.
        """
        for row, table in ((self, STUDY), (self.settings, SETTINGS)):
            for key, one in table.items():
                for value in getattr(row, key) if one.known else ():
                    one.known(value)  # type: ignore[misc]

    def panels(self) -> tuple[PanelSpec, ...]:
        """Return what is measured, in order: workload by workload, batch by batch, threads by threads."""
        from cross_backend.study.targets import expand

        targets = expand(self.targets, self.precisions)
        return tuple(
            PanelSpec(workload, batch, threads, targets)
            for workload in self.workloads
            for batch in workload.batch_sizes or self.batch_sizes
            for threads in self.threads
        )

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits of what is measured: not the name, the outputs, the jobs, or where files lie."""
        settings = asdict(replace(self.settings, jobs=0))
        panels = [
            {
                "model": one.workload.name if one.workload.content else one.model,
                "weights": None if one.weights and Path(one.weights).is_absolute() else one.weights,
                "content": one.workload.content,
                "batch": one.batch,
                "threads": one.threads,
                "targets": one.targets,
            }
            for one in self.panels()
        ]
        text = json.dumps({"schema": SCHEMA, "settings": settings, "panels": panels}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON that :meth:`from_json` reads."""
        return {"schema": SCHEMA, **json.loads(json.dumps(asdict(self)))}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Study:
        """Read what :meth:`to_json` gave; names are not looked up, for what was measured may be gone since.

        Raises:
            UsageError: it is none, or another version's.
        """
        try:
            if row["schema"] != SCHEMA:
                raise UsageError(f"a study of version {row['schema']!r} is not read by this one, which reads {SCHEMA}.")
            rest = {key: value for key, value in row.items() if key != "schema"}
            rest["workloads"] = tuple(WorkloadSpec(**one) for one in row["workloads"])
            rest["settings"] = StudySettings(**row["settings"])
            rest["output"] = StudyOutput(**row["output"])
            return cls(**rest)
        except (KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"not a study: {error}.") from error
