"""Capture each model once and lower it to several backends; what fails is told, and the rest is kept."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.cli import print_json
from cross_backend.cli._options import (
    add_batch,
    add_inputs,
    add_model,
    add_quality,
    add_targets,
    add_work,
    chosen_targets,
    export_progress,
    trust_files,
)
from cross_backend.errors import CrossBackendError, UnavailableError, UsageError, unknown_name
from cross_backend.names.platforms import EXPORTED
from cross_backend.records import Outcome
from cross_backend.report.files import writable_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cross_backend.exporting.export import Exported
    from cross_backend.report.terminal import Terminal
    from cross_backend.workloads import Source

MOBILENET = "mobilenet_v3_small"
"""What ``--mobilenet`` stands for in the backends guide."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model(parser, nargs="*")
    add_inputs(parser)
    add_targets(parser)
    add_batch(parser)
    parser.add_argument("--all", action="store_true", help="all built-in models whose packages are installed")
    parser.add_argument("--mobilenet", action="store_true", help=f"the same as {MOBILENET}")
    parser.add_argument("--yolo", nargs="+", default=[], metavar="NAME", help="YOLO detectors: yolo11n, yolov8n, …")
    add_quality(parser)
    parser.add_argument(
        "--bundled",
        action="store_true",
        help="also write NAME.bpte for ExecuTorch: the program with sample inputs and expected outputs inside",
    )
    parser.add_argument(
        "--output-dir",
        type=Path,
        default=Path("models"),
        metavar="DIR",
        help="folder for the artifacts (default: models)",
    )
    parser.add_argument(
        "--onnx",
        type=Path,
        metavar="FILE",
        help="write the model as one ONNX file whose batch dimension is free; alone, or beside --backends",
    )
    add_work(parser)


def main(args: argparse.Namespace) -> int:
    """Export; 0 if every model has at least one artifact, and with --strict only if nothing failed.

    Of several models one that cannot be built or captured is told, and the others go on; with --all, one whose package
    is not installed is no failure.
    """
    named = _named_models(args)
    chosen = chosen_targets(args, () if args.onnx else EXPORTED)
    from cross_backend.cache import Cache
    from cross_backend.exporting.export import Exported, ExportSettings, export, outcome_of
    from cross_backend.registry import with_precision
    from cross_backend.report.terminal import Terminal
    from cross_backend.workloads import WORKLOADS, find_workload

    targets = [with_precision(text, args.precision) for text in chosen]
    models = list(dict.fromkeys([*named, *(WORKLOADS if args.all else ())]))
    trust_files(args, models)
    sources = [find_workload(model, args.weights, args.batch, args.inputs, args.calibration) for model in models]
    terminal = Terminal(quiet=args.json)
    onnx = _write_onnx(terminal, sources, args) if args.onnx else None
    folder = writable_folder(args.output_dir) if targets else None
    settings = ExportSettings(Cache(), args.jobs or 0, args.timeout, folder, args.bundled, args.min_coverage)
    exported: dict[str, list[Exported]] = {}
    status = 0
    for source in sources if targets else ():
        unbuilt = None
        try:
            with export_progress(terminal) as observe:
                _, rows = export(source, targets, settings, observe)
        except CrossBackendError as error:
            if len(sources) == 1:
                raise
            unbuilt, outcome = error, outcome_of(error, Outcome.LOWER_FAIL)
            rows = [Exported(text, outcome, str(error)) for text in targets]
        exported[source.name] = rows
        failed = [row for row in rows if row.outcome is not Outcome.OK]
        optional = isinstance(unbuilt, UnavailableError) and source.text not in named
        if (len(failed) == len(rows) and not optional) or (failed and args.strict):
            status = 1
        if not args.json:
            _print(terminal, source.name, rows, unbuilt)
    if args.json:
        documents = [_document(name, row) for name, rows in exported.items() for row in rows]
        print_json({"schema": 1, "results": documents, "onnx": onnx})
    else:
        _print_tables(terminal, exported)
    return status


def _write_onnx(terminal: Terminal, sources: Sequence[Source], args: argparse.Namespace) -> dict[str, Any]:
    """Write the one model's ONNX file and say so; return its row of the JSON document.

    Raises:
        UsageError: there are several models, or no place for the file.
        CrossBackendError: it cannot be written.
    """
    from cross_backend.cache import Cache
    from cross_backend.exporting.onnx_file import export_onnx_file
    from cross_backend.lowering.free_batch import CHECKED
    from cross_backend.report import tables

    if len(sources) != 1:
        raise UsageError(f"--onnx writes one model, and {len(sources)} are named.")
    if args.onnx.suffix != ".onnx":
        raise UsageError(f"--onnx {args.onnx}: the file's name must end in .onnx.")
    writable_folder(args.onnx.parent)
    with terminal.progress() as show:
        show("onnx", f"{sources[0].name}: write {args.onnx}", None)
        size_bytes = export_onnx_file(sources[0], args.onnx, Cache(), args.timeout)
    checked = " and ".join(map(str, CHECKED))
    if not args.json:
        terminal.text(f"📦 {args.onnx} ({tables.size(size_bytes)}, any batch size, checked at {checked})")
    return {"path": str(args.onnx), "size_bytes": size_bytes}


def _named_models(args: argparse.Namespace) -> list[str]:
    """Return the models that were asked for by name.

    Raises:
        UsageError: there is none, and no --all either; or --yolo names no detector.
    """
    from cross_backend.workloads import WORKLOADS

    detectors = [name for name, row in WORKLOADS.items() if row.family == "detection"]
    for name in args.yolo:
        if name not in detectors:
            raise unknown_name("YOLO detector", name, detectors)
    named = [*args.models, *([MOBILENET] if args.mobilenet else []), *args.yolo]
    if not named and not args.all:
        raise UsageError(
            "a model is required: MODEL…, --mobilenet, --yolo NAME… or --all (see 'cross-backend models')."
        )
    return named


def _document(workload: str, row: Exported) -> dict[str, Any]:
    from cross_backend.registry import lifecycle_here

    artifact = row.artifact
    return {
        "workload": workload,
        "target": str(row.resolved.target) if row.resolved else row.text,
        "outcome": str(row.outcome),
        "path": str(artifact.payload_path) if artifact else None,
        "bundled_path": str(artifact.bundled_path) if artifact and artifact.bundled_path else None,
        "size_bytes": artifact.size_bytes if artifact else None,
        "coverage": artifact.placement.coverage if artifact else None,
        "flop_coverage": artifact.placement.flop_coverage if artifact else None,
        "export_s": artifact.export_s if artifact else None,
        "estimate": dict(artifact.estimate) or None if artifact else None,
        "cached": row.cached,
        "reason": row.reason,
        "lifecycle": lifecycle_here(row.resolved.backend) if row.resolved else None,
    }


def _print(terminal: Terminal, workload: str, rows: list[Exported], unbuilt: CrossBackendError | None) -> None:
    from cross_backend.registry import lifecycle_here
    from cross_backend.registry import rows as backend_rows

    good = [row for row in rows if row.artifact is not None]
    failed = [row for row in rows if row.artifact is None]
    terminal.text(f"📦 {workload}", style="bold")
    if unbuilt is not None:
        terminal.text(f"{'⚠️' if isinstance(unbuilt, UnavailableError) else '❌'} {unbuilt}")
        terminal.text()
        return
    if good:
        terminal.text(f"✅ Successfully exported {len(good)}/{len(rows)} backends")
    for row in good:
        terminal.text(f"   • {row.text}: {_summary(row)}")
        for told in row.artifact.ranges if row.artifact else ():
            terminal.text(f"     ⚠️ {told}")
    if failed:
        terminal.text(f"⚠️ Failed {len(failed)} backend(s):")
        for row in failed:
            terminal.text(f"   • {row.text}: {row.reason}")
    for row in rows:
        state = lifecycle_here(row.resolved.backend) if row.resolved else "supported"
        if state != "supported":
            terminal.text(f"⚠️ {row.text}: {state}")
    if all(row.outcome in {Outcome.UNAVAILABLE, Outcome.UNSUPPORTED} for row in rows):
        names = ", ".join(backend_rows())
        terminal.text(
            f"❌ No available backends from requested: {', '.join(row.text for row in rows)}. Backends: {names}."
        )
    terminal.text()


def _summary(row: Exported) -> str:
    from cross_backend.report import tables

    assert row.artifact is not None
    placement, path = row.artifact.placement, row.artifact.payload_path
    how = "from the cache" if row.cached else f"{row.seconds:.1f} s"
    inside = f"covers {placement.inside_count} of {placement.inside_count + placement.left_count} operators"
    beside = f" and {row.artifact.bundled}" if row.artifact.bundled else ""
    return f"{path}{beside} ({tables.size(row.artifact.size_bytes)}, {inside}, {how})"


def _print_tables(terminal: Terminal, exported: dict[str, list[Exported]]) -> None:
    """Print the guide's two tables, measured: seconds that lowering took, and file sizes."""
    from cross_backend.report import tables

    artifacts = {
        name: {row.text: row.artifact for row in rows if row.artifact is not None}
        for name, rows in exported.items()
        if any(row.artifact is not None for row in rows)
    }
    targets = list(dict.fromkeys(text for row in artifacts.values() for text in row))
    if not targets:
        return
    terminal.text("⏱️ Export time, capture excluded (of cached files: when they were made)", style="bold")
    seconds = [
        (text, *(f"{row[text].export_s:.1f} s" if text in row else "–" for row in artifacts.values()))
        for text in targets
    ]
    terminal.table(("Backend", *artifacts), seconds, right=range(1, 1 + len(artifacts)))
    terminal.text()
    terminal.text("📦 File size", style="bold")
    sizes = [
        (name, *(tables.size(row[text].size_bytes) if text in row else "–" for text in targets))
        for name, row in artifacts.items()
    ]
    terminal.table(("Model", *targets), sizes, right=range(1, 1 + len(targets)))
    terminal.text()
