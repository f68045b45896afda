"""Explain what a backend takes of a model: what is inside, what was left, why, and from which line of your Python."""

from __future__ import annotations

import argparse

from cross_backend.cli import print_json
from cross_backend.cli._options import add_calibration, add_json, add_model, add_timeout, export_progress, trust_files
from cross_backend.errors import LowerError


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model(parser)
    parser.add_argument("--backend", required=True, metavar="TARGET", help="vulkan, 'xnnpack?precision=int8', …")
    add_calibration(parser)
    add_timeout(parser)
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Lower (or take it from the cache) and print the placement."""
    from cross_backend.cache import Cache
    from cross_backend.export.export import ExportSettings, export
    from cross_backend.registry import resolve
    from cross_backend.report.terminal import Terminal
    from cross_backend.workloads import find_workload

    resolve(args.backend)  # a wrong name is told before anything is done
    terminal = Terminal(quiet=args.json)
    trust_files(args, [args.model])
    source = find_workload(args.model, args.weights, calibration=args.calibration)
    settings = ExportSettings(Cache(), timeout_s=args.timeout, only_explained=True)
    with export_progress(terminal) as observe:
        captured, rows = export(source, [args.backend], settings, observe)
    row = rows[0]
    if row.artifact is None:
        raise LowerError(f"{source.name} on {args.backend}: {row.outcome}: {row.reason}")
    placement = row.artifact.placement
    if args.json:
        document = {"workload": source.name, "target": row.artifact.target, "flops": captured.flops}
        print_json({"schema": 1, **document, "placement": placement.to_json()})
        return 0
    from cross_backend.report.placement import facts, print_operators

    terminal.text(f"📦 {source.name} on {row.artifact.target}", style="bold")
    work: list[tuple[str, str]] = [("FLOPs", f"{captured.flops:,} an inference")] if captured.flops else []
    terminal.table(("", ""), [*work, *facts(placement)])
    print_operators(terminal, placement)
    return 0
