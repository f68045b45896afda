"""Export a model for one or several platforms and pack what is shipped: artifacts, sample, labels, loaders."""

from __future__ import annotations

import argparse
import contextlib
import graphlib
import itertools
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.cli import print_json
from cross_backend.cli._options import add_inputs, add_model, add_quality, add_work, export_progress, trust_files
from cross_backend.errors import LowerError, UsageError
from cross_backend.records import Outcome
from cross_backend.report.files import writable_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cross_backend.bundle import Evidence
    from cross_backend.cache import Cache
    from cross_backend.export.export import Exported
    from cross_backend.program.capture import Captured
    from cross_backend.remembered import Measured
    from cross_backend.report.terminal import Terminal


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model(parser)
    parser.add_argument(
        "--platform",
        nargs="+",
        metavar="NAME",
        help="platforms that the bundle is for: android, ios, desktop, …; each has its own fallback order",
    )
    parser.add_argument(
        "--backends", nargs="+", metavar="TARGET", help="backends in fallback order, instead of a platform's"
    )
    add_quality(parser)
    parser.add_argument(
        "--measure", action="store_true", help="measure here what runs here, so that the manifest has the ranks"
    )
    parser.add_argument(
        "--measured",
        action="store_true",
        help="order each platform's artifacts by what comparisons measured on its machines, here or with --on; "
        "the manifest holds the evidence",
    )
    add_inputs(parser)
    parser.add_argument(
        "--ship-inputs", action="store_true", help="write the --inputs into the bundle, to be verified there, too"
    )
    parser.add_argument("--zip", action="store_true", help="write one zip file instead of a folder")
    parser.add_argument(
        "--output-dir",
        type=Path,
        default=Path("bundles"),
        metavar="DIR",
        help="the bundle is DIR/<model> (default: bundles)",
    )
    add_work(parser)


def main(args: argparse.Namespace) -> int:
    """Bundle; 0 if it holds at least one artifact, and with --strict only if nothing failed."""
    from cross_backend.registry import check_targets, with_precision

    check_targets(args.backends or ())
    orders = _orders(args)
    asked = merged_order(list(orders.values())) or args.backends
    targets = _distinct([with_precision(text, args.precision) for text in asked])
    from cross_backend.bundle import write_bundle
    from cross_backend.cache import Cache
    from cross_backend.comparison.panel import run_panel
    from cross_backend.comparison.settings import Settings
    from cross_backend.export.export import ExportSettings, export
    from cross_backend.report.terminal import Terminal
    from cross_backend.workloads import find_workload

    if args.measured and not args.platform:
        raise UsageError("--measured orders platforms. Name them: --platform NAME….")
    trust_files(args, [args.model])
    if args.ship_inputs and not args.inputs:
        raise UsageError("--ship-inputs needs --inputs PATH.")
    source = find_workload(args.model, args.weights, own=args.inputs, calibration=args.calibration)
    parent = writable_folder(args.output_dir)
    terminal = Terminal(quiet=args.json)
    settings = ExportSettings(Cache(), args.jobs or 0, args.timeout, min_coverage=args.min_coverage)
    with export_progress(terminal) as observe:
        captured, rows = export(source, targets, settings, observe)
    good = [row for row in rows if row.outcome is Outcome.OK]
    if not good:
        reasons = "; ".join(f"{row.text}: {row.reason}" for row in rows)
        raise LowerError(f"nothing to bundle: {reasons}")
    if args.measure:
        run_panel(captured, good, Settings(), settings.cache)  # which remembers it
    names = {row.text: f"{captured.workload}_{row.resolved.stem}" for row in good if row.resolved}
    measured = _measured(captured, good, names, settings.cache)
    ordered = _named(orders, targets, names)
    evidence = _evidence(captured, good, names, ordered, settings.cache) if args.measured else []
    for one in reversed(evidence):  # the first of a platform is the best
        ordered[one.platform] = list(one.order)
    if evidence:
        places = merged_order(list(ordered.values()))
        good.sort(key=lambda row: places.index(names[row.text]))
    place = write_bundle(
        captured,
        [_contents(row, names[row.text]) for row in good],
        ordered,
        measured,
        parent,
        evidence=evidence,
        zipped=args.zip,
        ship_inputs=args.ship_inputs,
    )
    if args.json:
        print_json(
            {
                "schema": 1,
                "bundle": str(place),
                "orders": ordered,
                "why": _why(ordered, evidence, is_measured=args.measured),
                "evidence": [asdict(one) for one in evidence],
                "results": [_document(row, names, measured) for row in rows],
            }
        )
    else:
        _print(terminal, place, [*good, *(row for row in rows if row not in good)], names, measured)
        if args.measured:
            for platform, why in _why(ordered, evidence, is_measured=True).items():
                terminal.text(f"{platform}: {why}: {' › '.join(ordered[platform])}")
    return 1 if args.strict and len(good) < len(rows) else 0


def _orders(args: argparse.Namespace) -> dict[str, tuple[str, ...]]:
    """Return platform → its backends, for the platforms that were named."""
    from cross_backend.platforms import PLATFORMS, find_platform

    if bool(args.backends) == bool(args.platform):
        raise UsageError(f"say what for: --platform {'|'.join(PLATFORMS)} (one or several), or --backends TARGET….")
    platforms = [find_platform(name) for name in args.platform or ()]
    return {platform.name: platform.backends for platform in platforms}


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
    from cross_backend.errors import CrossBackendError
    from cross_backend.registry import resolve

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
    from cross_backend.registry import full_name
    from cross_backend.target import Target

    made = {full_name(Target.parse(text).name): names[text] for text in targets if text in names}
    return {platform: [made[text] for text in order if text in made] for platform, order in orders.items()}


def _contents(row: Exported, name: str) -> tuple[Any, str, str, Mapping[str, float]]:
    from cross_backend.tensors import load_tensors
    from cross_backend.verify.compare import tolerances_of

    assert row.artifact is not None and row.resolved is not None
    artifact = replace(row.artifact, target=str(row.resolved.target))  # with the options that shape how it is opened
    sample = load_tensors(artifact.sample_path) if artifact.sample_path else {}
    return artifact, name, row.resolved.backend.title, tolerances_of(sample, row.resolved.options)


def _measured(
    captured: Captured, rows: Sequence[Exported], names: Mapping[str, str], cache: Cache
) -> dict[str, Measured]:
    from cross_backend.remembered import Memory

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
    from cross_backend.bundle import find_evidence
    from cross_backend.machine import Machine
    from cross_backend.platforms import find_platform
    from cross_backend.remembered import Memory

    targets = {names[row.text]: str(row.resolved.target) for row in rows if row.resolved}
    known, here = Memory(cache).everywhere(captured.digest), Machine.here().identity
    found = [find_evidence(find_platform(name), order, targets, known, here) for name, order in orders.items()]
    return list(itertools.chain(*found))


def _why(orders: Mapping[str, Sequence[str]], evidence: Sequence[Evidence], *, is_measured: bool) -> dict[str, str]:
    """Return platform → what decided its order."""
    best = {one.platform: f"measured on {one}" for one in reversed(evidence)}
    otherwise = "no measurement of such a machine; the platform's order" if is_measured else "the platform's order"
    return {platform: best.get(platform, otherwise) for platform in orders}


def _document(row: Exported, names: Mapping[str, str], measured: Mapping[str, Measured]) -> dict[str, Any]:
    name = names.get(row.text)
    result = measured.get(name or "")
    return {
        "target": str(row.resolved.target) if row.resolved else row.text,
        "outcome": str(row.outcome),
        "name": name,
        "size_bytes": row.artifact.size_bytes if row.artifact else None,
        "coverage": row.artifact.placement.coverage if row.artifact else None,
        "rank": result.rank if result else None,
        "reason": row.reason,
    }


def _print(
    terminal: Terminal,
    place: Path,
    rows: Sequence[Exported],
    names: Mapping[str, str],
    measured: Mapping[str, Measured],
) -> None:
    from cross_backend.report import tables

    good = [row for row in rows if row.artifact is not None]
    terminal.text(f"📦 {place}", style="bold")
    terminal.text(f"✅ {len(good)}/{len(rows)} backends, in fallback order:")
    table = []
    for place_number, row in enumerate(good, start=1):
        assert row.artifact is not None and row.resolved is not None
        result = measured.get(names[row.text])
        here = f"rank {result.rank}, {tables.milliseconds(result.median_ms)} ms median" if result else "not measured"
        coverage = tables.percent(row.artifact.placement.coverage)
        table.append(
            (
                str(place_number),
                row.resolved.backend.title,
                names[row.text],
                coverage,
                tables.size(row.artifact.size_bytes),
                here,
            )
        )
    terminal.table(("", "Backend", "artifact", "coverage", "size", "on this machine"), table, right=[0, 3, 4])
    failed = [row for row in rows if row.artifact is None]
    if failed:
        terminal.text(f"⚠️ Failed {len(failed)} backend(s):")
        for row in failed:
            terminal.text(f"   • {row.text}: {row.reason}")
