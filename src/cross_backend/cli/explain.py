"""Explain what a backend takes of a model: what is inside, what was left, why, and from which line of your Python."""

from __future__ import annotations

import argparse

from cross_backend.cli import positive_int, print_json
from cross_backend.cli._options import (
    add_calibration,
    add_json,
    add_model,
    add_timeout,
    export_progress,
    trust_files,
)
from cross_backend.errors import LowerError


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model(parser)
    parser.add_argument("--backend", required=True, metavar="TARGET", help="vulkan, 'xnnpack?precision=int8', …")
    parser.add_argument(
        "--against",
        metavar="TARGET",
        help="a second backend: profile both, and lay side by side what each part of the model and each line of "
        "Python takes, the largest difference first",
    )
    parser.add_argument("--threads", type=positive_int, default=1, metavar="N", help="CPU threads of both (default: 1)")
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

    targets = [args.backend, *([args.against] if args.against else [])]
    for target in targets:
        resolve(target)  # a wrong name is told before anything is done
    terminal = Terminal(quiet=args.json)
    trust_files(args, [args.model])
    source = find_workload(args.model, args.weights, calibration=args.calibration)
    settings = ExportSettings(Cache(), timeout_s=args.timeout, only_explained=True)
    with export_progress(terminal) as observe:
        captured, rows = export(source, targets, settings, observe)
    artifacts = []
    for target, row in zip(targets, rows, strict=True):
        if row.artifact is None:
            raise LowerError(f"{source.name} on {target}: {row.outcome}: {row.reason}")
        artifacts.append(row.artifact)
    artifact, *others = artifacts
    placement = artifact.placement
    against = None
    if others:
        from cross_backend.comparison.settings import Settings
        from cross_backend.comparison.side_by_side import compared

        against = compared(artifact, others[0], Settings(threads=args.threads, timeout_s=args.timeout), settings.cache)
    if args.json:
        document = {"workload": source.name, "target": artifact.target, "flops": captured.flops}
        more = {} if against is None else {"against": against.to_json()}
        print_json({"schema": 1, **document, "placement": placement.to_json(), **more})
        return 0
    from cross_backend.report.placement import facts, print_operators

    terminal.text(f"📦 {source.name} on {artifact.target}", style="bold")
    work: list[tuple[str, str]] = [("FLOPs", f"{captured.flops:,} an inference")] if captured.flops else []
    terminal.table(("", ""), [*work, *facts(placement)])
    print_operators(terminal, placement)
    if against is not None:
        from cross_backend.report.side_by_side import print_side_by_side

        print_side_by_side(terminal, against)
    return 0
