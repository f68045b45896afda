"""Export and explain: files of many targets, and what a backend delegates of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

from cross_backend.api.arguments import chosen_target, chosen_targets, logged, path_of, required, settings_of
from cross_backend.api.models import Model, subject
from cross_backend.cache import Cache
from cross_backend.errors import LowerError
from cross_backend.exporting.export import Exported, ExportSettings, Observe
from cross_backend.exporting.export import export as export_all
from cross_backend.names.platforms import EXPORTED
from cross_backend.names.target import Target
from cross_backend.placement import Placement
from cross_backend.program.captured import Captured
from cross_backend.records import SideBySide
from cross_backend.report.files import writable_folder
from cross_backend.workloads import Source

if TYPE_CHECKING:
    from cross_backend.comparison.settings import Settings
    from cross_backend.report.terminal import Terminal


def export(
    model: Model,
    targets: Sequence[str | Target] | str | None = None,
    inputs: Sequence[Any] | None = None,
    *,
    platform: str | None = None,
    precision: str | None = None,
    output_dir: str | PathLike[str] | None = None,
    bundled: bool = False,
    min_coverage: float = 0.0,
    name: str | None = None,
    weights: str | PathLike[str] | None = None,
    batch: int | None = None,
    calibration: str | PathLike[str] | None = None,
    jobs: int = 0,
    timeout_s: float = 1800.0,
    trust: bool = False,
) -> list[Exported]:
    """Capture once and lower to many targets; a target that fails keeps its row and its reason.

    Example:
        >>> for row in xb.export(program, ["torch", "atalla?precision=int4w"]):
        ...     print(row.text, row.outcome)
        torch OK
        atalla?precision=int4w UNSUPPORTED

    Args:
        model: as ``compare`` takes it.
        targets: backends with options; ``["all"]`` for every one. XNNPACK where None.
        inputs: as ``compare`` takes them.
        platform: take this platform's backends instead of ``targets``.
        precision: of every target that names none.
        output_dir: folder for payloads, manifests and sample; the cache only where None.
        bundled: also write ``NAME.bpte`` for ExecuTorch: the program with its sample inside.
        min_coverage: fail a backend that executes less than this share of operators or FLOPs itself.
        name: stem of the files of a program or a module; ``model`` where None.
        weights: see ``compare``.
        batch: see ``compare``.
        calibration: see ``compare``.
        jobs: most worker processes; one per processor where 0.
        timeout_s: seconds to wait for a capture or a lowering.
        trust: see ``compare``.

    Returns:
        One row a target, in their order: ``row.outcome``, ``row.reason``, ``row.artifact``.

    Raises:
        UsageError: an argument does not fit; the text names it.
        CaptureError: the model cannot be captured.
    """
    texts = chosen_targets(targets, platform, EXPORTED, precision)
    cache, folder = Cache(), path_of("output_dir", output_dir)
    settings = ExportSettings(
        cache,
        required("jobs", jobs),
        required("timeout_s", timeout_s),
        folder and writable_folder(folder),
        required("bundled", bundled),
        required("min_coverage", min_coverage),
    )
    given = {"weights": weights, "batch": batch, "calibration": calibration}
    exported = subject(model, inputs, cache, name=name, trust=trust, **given)  # type: ignore[arg-type]
    return export_all(exported, texts, settings, logged())[1]


@dataclass(frozen=True)
class Explanation:
    """What a backend delegates of a model, and where the time of two backends differs.

    ``print`` shows the tables of ``cross-backend explain``.
    """

    workload: str
    target: str
    flops: int | None
    """Floating point operations of one inference; None where they are not counted."""
    placement: Placement
    """Operators inside and left, with reasons and lines of Python."""
    against: SideBySide | None = None
    """Times of each part of the model beside another backend's, where one was named."""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document of ``cross-backend explain --json``."""
        row = {"schema": 1, "workload": self.workload, "target": self.target, "flops": self.flops}
        more = {} if self.against is None else {"against": self.against.to_json()}
        return {**row, "placement": self.placement.to_json(), **more}

    def print(self, terminal: Terminal) -> None:
        """Print the tables."""
        from cross_backend.report.placement import facts, print_operators

        terminal.text(f"📦 {self.workload} on {self.target}", style="bold")
        work: list[tuple[str, str]] = [("FLOPs", f"{self.flops:,} an inference")] if self.flops else []
        terminal.table(("", ""), [*work, *facts(self.placement)])
        print_operators(terminal, self.placement)
        if self.against is not None:
            from cross_backend.report.side_by_side import print_side_by_side

            print_side_by_side(terminal, self.against)

    def __str__(self) -> str:
        """Return the tables that a terminal shows."""
        from cross_backend.report.printed import written

        return written(self.print)


def explain(
    model: Model,
    inputs: Sequence[Any] | None = None,
    *,
    backend: str | Target,
    against: str | Target | None = None,
    threads: int = 1,
    name: str | None = None,
    weights: str | PathLike[str] | None = None,
    calibration: str | PathLike[str] | None = None,
    timeout_s: float = 1800.0,
    trust: bool = False,
) -> Explanation:
    """Explain what a backend delegates of a model, what it does not, why, and which line of Python made it.

    Example:
        >>> found = xb.explain(program, backend="torch")
        >>> found.placement.coverage
        1.0

    Args:
        model: as ``compare`` takes it.
        inputs: as ``compare`` takes them.
        backend: the target.
        against: a second backend: both are profiled, and each part of the model has its times side by side.
        threads: CPU threads of both.
        name: see ``compare``.
        weights: see ``compare``.
        calibration: see ``compare``.
        timeout_s: seconds to wait for a lowering or an answer.
        trust: see ``compare``.

    Raises:
        UsageError: an argument does not fit; the text names it.
        CaptureError: the model cannot be captured.
        LowerError: a backend cannot lower it; the text has its outcome and reason.
    """
    texts = [chosen_target("backend", backend)] + ([] if against is None else [chosen_target("against", against)])
    settings, cache = settings_of(threads=threads, timeout_s=timeout_s), Cache()
    given = {"weights": weights, "calibration": calibration}
    explained = subject(model, inputs, cache, name=name, trust=trust, **given)  # type: ignore[arg-type]
    return explain_source(explained, texts, settings, cache, logged())


def explain_source(
    source: Source | Captured, texts: Sequence[str], settings: Settings, cache: Cache, observe: Observe
) -> Explanation:
    """Explain what was found or captured; a second target is the one that the first is compared with.

    Raises:
        LowerError: a target cannot be lowered.
    """
    exporting = ExportSettings(cache, timeout_s=settings.timeout_s, only_explained=True)
    captured, rows = export_all(source, texts, exporting, observe)
    artifacts = []
    for text, row in zip(texts, rows, strict=True):
        if row.artifact is None:
            raise LowerError(f"{captured.workload} on {text}: {row.outcome}: {row.reason}")
        artifacts.append(row.artifact)
    artifact, *others = artifacts
    against = None
    if others:
        from cross_backend.comparison.side_by_side import compared

        against = compared(artifact, others[0], captured.folder, settings, cache)
    return Explanation(captured.workload, artifact.target, captured.flops, artifact.placement, against)
