"""Capture each model once and lower it to several backends; what fails is told, and the rest is kept."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.cli import print_json
from cross_backend.cli._options import add_model, add_work, chosen_targets, export_progress, writable_folder
from cross_backend.records import Outcome

if TYPE_CHECKING:
    from cross_backend.export import Exported
    from cross_backend.report.terminal import Terminal

DEFAULT = ("xnnpack",)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model(parser, several=True)
    parser.add_argument(
        "--output-dir",
        type=Path,
        default=Path("models"),
        metavar="DIR",
        help="folder for the artifacts (default: models)",
    )
    add_work(parser)


def main(args: argparse.Namespace) -> int:
    """Export; 0 if every model has at least one artifact, and with --strict only if nothing failed."""
    targets = chosen_targets(args, DEFAULT)
    from cross_backend.cache import Cache
    from cross_backend.export import Settings, export
    from cross_backend.report.terminal import Terminal
    from cross_backend.workloads import find_workload

    sources = [find_workload(model, args.weights) for model in args.models]
    folder = writable_folder(args.output_dir)
    terminal = Terminal(quiet=args.json)
    settings = Settings(Cache(), args.jobs or 0, args.timeout, folder)
    documents: list[dict[str, Any]] = []
    status = 0
    for source in sources:
        with export_progress(terminal) as observe:
            _, rows = export(source, targets, settings, observe)
        documents += [_document(source.name, row) for row in rows]
        failed = [row for row in rows if row.outcome is not Outcome.OK]
        if len(failed) == len(rows) or (failed and args.strict):
            status = 1
        if not args.json:
            _print(terminal, source.name, rows)
    if args.json:
        print_json({"schema": 1, "results": documents})
    return status


def _document(workload: str, row: Exported) -> dict[str, Any]:
    artifact = row.artifact
    return {
        "workload": workload,
        "target": str(row.resolved.target) if row.resolved else row.text,
        "outcome": str(row.outcome),
        "path": str(artifact.payload_path) if artifact else None,
        "size_bytes": artifact.size_bytes if artifact else None,
        "coverage": artifact.placement.coverage if artifact else None,
        "export_s": artifact.export_s if artifact else None,
        "cached": row.cached,
        "reason": row.reason,
    }


def _print(terminal: Terminal, workload: str, rows: list[Exported]) -> None:
    from cross_backend.registry import rows as backend_rows
    from cross_backend.report import tables

    good = [row for row in rows if row.artifact is not None]
    failed = [row for row in rows if row.artifact is None]
    terminal.text(f"📦 {workload}", style="bold")
    if good:
        terminal.text(f"✅ Successfully exported {len(good)}/{len(rows)} backends")
    for row in good:
        assert row.artifact is not None
        placement = row.artifact.placement
        how = "cached" if row.cached else f"{row.artifact.export_s:.1f} s"
        inside = f"{placement.inside_count} operators inside, {placement.left_count} left"
        terminal.text(
            f"   • {row.text}: {row.artifact.payload_path} ({tables.size(row.artifact.size_bytes)}, {inside}, {how})"
        )
    if failed:
        terminal.text(f"⚠️ Failed {len(failed)} backend(s):")
        for row in failed:
            terminal.text(f"   • {row.text}: {row.reason}")
    if not good:
        names = ", ".join(backend_rows())
        terminal.text(
            f"❌ No available backends from requested: {', '.join(row.text for row in rows)}. Backends: {names}."
        )
    terminal.text()
