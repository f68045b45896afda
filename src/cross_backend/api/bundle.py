"""Bundle: export a model for platforms, order what was made, and pack what is shipped."""

from __future__ import annotations

import contextlib
import graphlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from cross_backend.api.arguments import chosen_targets, described, logged, path_of, required
from cross_backend.api.models import Model, subject
from cross_backend.bundling import Evidence, find_evidence, write_bundle
from cross_backend.cache import Cache
from cross_backend.comparison.panel import run_panel
from cross_backend.comparison.settings import Settings
from cross_backend.errors import CrossBackendError, LowerError, UsageError
from cross_backend.exporting.export import Exported, ExportSettings, Observe, export, ignore
from cross_backend.loading.media import with_tokenizer_of
from cross_backend.machine import Machine
from cross_backend.names.platforms import PLATFORMS, find_platform
from cross_backend.names.target import Target
from cross_backend.program.captured import Captured
from cross_backend.records import Outcome
from cross_backend.registry import full_name, resolve
from cross_backend.remembered import Measured, Memory
from cross_backend.report.files import writable_folder
from cross_backend.tensors import load_tensors
from cross_backend.verify.compare import tolerances_of
from cross_backend.workloads import Source
from cross_backend.workloads.media import read_media


@dataclass(frozen=True)
class Bundled:
    """What was packed, and what could not be."""

    path: Path
    """The bundle: a folder or a zip file."""
    rows: tuple[Exported, ...]
    """One row a target, as they were asked for; failed ones keep their reasons."""
    shipped: tuple[Exported, ...]
    """Those that are in the bundle, in fallback order."""
    names: Mapping[str, str]
    """Target as it was asked for → name of its artifact in the bundle."""
    orders: Mapping[str, Sequence[str]]
    """Platform → names of its artifacts, in fallback order."""
    measured: Mapping[str, Measured]
    """Name → what comparisons measured of it on this machine."""
    evidence: tuple[Evidence, ...] = ()
    """What decided the orders, where measurements were to decide."""
    is_measured: bool = False
    """Whether measurements were to decide."""

    @property
    def why(self) -> Mapping[str, str]:
        """Platform → what decided its order."""
        best = {one.platform: f"measured on {one}" for one in reversed(self.evidence)}
        otherwise = (
            "no measurement of such a machine; the platform's order" if self.is_measured else "the platform's order"
        )
        return {platform: best.get(platform, otherwise) for platform in self.orders}

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document of ``cross-backend bundle --json``."""
        return {
            "schema": 1,
            "bundle": str(self.path),
            "orders": {platform: list(order) for platform, order in self.orders.items()},
            "why": dict(self.why),
            "evidence": [asdict(one) for one in self.evidence],
            "results": [self._row(row) for row in self.rows],
        }

    def _row(self, row: Exported) -> dict[str, Any]:
        name = self.names.get(row.text)
        result = self.measured.get(name or "")
        return {
            "target": str(row.resolved.target) if row.resolved else row.text,
            "outcome": str(row.outcome),
            "name": name,
            "size_bytes": row.artifact.size_bytes if row.artifact else None,
            "coverage": row.artifact.placement.coverage if row.artifact else None,
            "rank": result.rank if result else None,
            "reason": row.reason,
        }


def bundle(
    model: Model,
    targets: Sequence[str | Target] | str | None = None,
    inputs: Sequence[Any] | None = None,
    *,
    platform: str | Sequence[str] | None = None,
    precision: str | None = None,
    output_dir: str | PathLike[str] = "bundles",
    measure: bool = False,
    measured: bool = False,
    ship_inputs: bool = False,
    tokenizer: str | PathLike[str] | None = None,
    zipped: bool = False,
    min_coverage: float = 0.0,
    name: str | None = None,
    weights: str | PathLike[str] | None = None,
    calibration: str | PathLike[str] | None = None,
    jobs: int = 0,
    timeout_s: float = 1800.0,
    trust: bool = False,
) -> Bundled:
    """Export a model for platforms and pack what is shipped: artifacts, sample, labels, loaders.

    Example:
        >>> packed = xb.bundle(program, ["torch"], name="net", output_dir="bundles")  # doctest: +SKIP
        >>> with xb.load_best(packed.path) as session:  # doctest: +SKIP
        ...     output = session(example)

    Args:
        model: as ``compare`` takes it.
        targets: backends in fallback order, instead of ``platform``.
        inputs: as ``compare`` takes them.
        platform: platforms that the bundle is for, each with an order of its own: ``android``, ``ios``, ``desktop``.
        precision: of every target that names none.
        output_dir: the bundle is ``output_dir/<model>``.
        measure: measure here what runs here, so that the manifest has the ranks.
        measured: order each platform's artifacts by what comparisons measured on its machines.
        ship_inputs: write your own inputs into the bundle.
        tokenizer: ``tokenizer.json`` of the model's weights, so that the bundle takes texts.
        zipped: write one zip file instead of a folder.
        min_coverage: fail a backend that executes less than this share of operators or FLOPs itself.
        name: of a program or a module; ``model`` where None.
        weights: see ``compare``.
        calibration: see ``compare``.
        jobs: most worker processes; one per processor where 0.
        timeout_s: seconds to wait for a capture or a lowering.
        trust: see ``compare``.

    Returns:
        ``path`` of the bundle, and a row a target; ``xb.load_best(path)`` opens it.

    Raises:
        UsageError: an argument does not fit; the text names it.
        CaptureError: the model cannot be captured.
        LowerError: there is nothing to bundle; the text has every target's reason.
    """
    if (targets is None) == (platform is None):
        raise UsageError(f"say what for: platform={'|'.join(PLATFORMS)} (one or several), or targets=[…].")
    if measured and platform is None:
        raise UsageError("measured: orders platforms. Name them: platform=….")
    if ship_inputs and inputs is None:
        raise UsageError("ship_inputs: needs inputs, paths of your own.")
    names = [platform] if isinstance(platform, str) else platform or ()
    if not all(isinstance(one, str) for one in names):
        raise UsageError(f"platform: names of platforms are expected, not {described(platform)}.")
    orders = platform_orders(names)
    texts = chosen_targets(merged_order(list(orders.values())) if platform else targets, None, (), precision)
    cache, words = Cache(), path_of("tokenizer", tokenizer)
    settings = ExportSettings(
        cache,
        required("jobs", jobs),
        required("timeout_s", timeout_s),
        min_coverage=required("min_coverage", min_coverage),
    )
    parent = writable_folder(path_of("output_dir", output_dir) or Path())
    given = {"weights": weights, "calibration": calibration}
    source = subject(model, inputs, cache, name=name, trust=trust, **given)  # type: ignore[arg-type]
    return pack(
        source,
        texts,
        orders,
        settings,
        parent,
        logged(),
        measure=required("measure", measure),
        measured=required("measured", measured),
        ship_inputs=required("ship_inputs", ship_inputs),
        tokenizer=words,
        zipped=required("zipped", zipped),
    )


def pack(
    source: Source | Captured,
    targets: Sequence[str],
    orders: Mapping[str, Sequence[str]],
    settings: ExportSettings,
    parent: Path,
    observe: Observe = ignore,
    *,
    measure: bool = False,
    measured: bool = False,
    ship_inputs: bool = False,
    tokenizer: Path | None = None,
    zipped: bool = False,
) -> Bundled:
    """Export, order by what is known, and write the bundle.

    Args:
        source: the model.
        targets: in fallback order.
        orders: platform → its backends.
        settings: how to export.
        parent: folder that exists.
        observe: told how each target ended.
        measure: see :func:`bundle`.
        measured: see :func:`bundle`.
        ship_inputs: see :func:`bundle`.
        tokenizer: see :func:`bundle`.
        zipped: see :func:`bundle`.

    Raises:
        LowerError: nothing can be bundled.
    """
    targets = _distinct(targets)
    captured, rows = export(source, targets, settings, observe)
    words = None if tokenizer is None else read_tokenizer(tokenizer, captured)
    good = [row for row in rows if row.outcome is Outcome.OK]
    if not good:
        reasons = "; ".join(f"{row.text}: {row.reason}" for row in rows)
        raise LowerError(f"nothing to bundle: {reasons}")
    if measure:
        run_panel(captured, good, Settings(), settings.cache)  # which remembers it
    names = {row.text: f"{captured.workload}_{row.resolved.stem}" for row in good if row.resolved}
    known = _measured(captured, good, names, settings.cache)
    ordered = _named(orders, targets, names)
    evidence = _evidence(captured, good, names, ordered, settings.cache) if measured else []
    for one in reversed(evidence):  # the first of a platform is the best
        ordered[one.platform] = list(one.order)
    if evidence:
        places = merged_order(list(ordered.values()))
        good.sort(key=lambda row: places.index(names[row.text]))
    path = write_bundle(
        captured,
        [_contents(row, names[row.text]) for row in good],
        ordered,
        known,
        parent,
        evidence=evidence,
        zipped=zipped,
        ship_inputs=ship_inputs,
        tokenizer=words,
    )
    return Bundled(path, tuple(rows), tuple(good), names, ordered, known, tuple(evidence), measured)


def platform_orders(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return platform → its backends, for the platforms that were named.

    Raises:
        UsageError: there is no such platform.
    """
    return {platform.name: platform.backends for platform in map(find_platform, names)}


def read_tokenizer(path: Path, captured: Captured) -> str:
    """Return the content of a tokenizer's file, which fits the model.

    Raises:
        UsageError: it is none, is another model's, or the model takes no text.
    """
    media = with_tokenizer_of(path, read_media(captured.media), captured.workload)
    assert media.tokenizer is not None, "it was just read"
    return media.tokenizer


def merged_order(orders: Sequence[Sequence[str]]) -> list[str]:
    """Return one order that keeps every platform's own; the first platforms' where they contradict each other."""
    before: dict[str, list[str]] = {text: [] for order in orders for text in order}
    for order in orders:
        for earlier, later in itertools.pairwise(order):
            before[later].append(earlier)
    try:
        return list(graphlib.TopologicalSorter(before).static_order())
    except graphlib.CycleError:
        return list(before)


def _distinct(targets: Sequence[str]) -> list[str]:
    """Drop targets that were given before, under another name perhaps; wrong ones stay, to be told."""
    found: dict[str, str] = {}
    for text in targets:
        key = text
        with contextlib.suppress(CrossBackendError):
            key = str(resolve(text).target)
        found.setdefault(key, text)
    return list(found.values())


def _named(
    orders: Mapping[str, Sequence[str]], targets: Sequence[str], names: Mapping[str, str]
) -> dict[str, list[str]]:
    """Return platform → names of the artifacts that were made for it, in its order."""
    made = {full_name(Target.parse(text).name): names[text] for text in targets if text in names}
    return {platform: [made[text] for text in order if text in made] for platform, order in orders.items()}


def _contents(row: Exported, name: str) -> tuple[Any, str, str, Mapping[str, float]]:
    assert row.artifact is not None and row.resolved is not None
    artifact = replace(row.artifact, target=str(row.resolved.target))  # with the options that shape how it is opened
    sample = load_tensors(artifact.sample_path) if artifact.sample_path else {}
    return artifact, name, row.resolved.backend.title, tolerances_of(sample, row.resolved.options)


def _measured(
    captured: Captured, rows: Sequence[Exported], names: Mapping[str, str], cache: Cache
) -> dict[str, Measured]:
    known = Memory(cache).measured(captured.digest)
    return {names[row.text]: known[str(row.resolved.target)] for row in rows if str(row.resolved.target) in known}  # type: ignore[union-attr]


def _evidence(
    captured: Captured,
    rows: Sequence[Exported],
    names: Mapping[str, str],
    orders: Mapping[str, Sequence[str]],
    cache: Cache,
) -> list[Evidence]:
    """Return what was measured of the artifacts on machines of each platform, the best of each platform first."""
    targets = {names[row.text]: str(row.resolved.target) for row in rows if row.resolved}
    known, here = Memory(cache).everywhere(captured.digest), Machine.here().identity
    found = [find_evidence(find_platform(name), order, targets, known, here) for name, order in orders.items()]
    return list(itertools.chain(*found))
