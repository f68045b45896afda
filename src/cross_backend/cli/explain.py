"""Explain what a backend delegates of a model, what it does not, why, and which line of your Python made it."""

from __future__ import annotations

import argparse

from cross_backend.cli import positive_int, print_json
from cross_backend.cli._options import add_calibration, add_json, add_model, add_timeout, export_progress, trust_files


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model(parser)
    parser.add_argument("--backend", required=True, metavar="TARGET", help="vulkan, 'xnnpack?precision=int8', …")
    parser.add_argument(
        "--against",
        metavar="TARGET",
        help="a second backend: profile both, and print the times of each part of the model and each line of Python "
        "side by side, largest difference first",
    )
    parser.add_argument("--threads", type=positive_int, default=1, metavar="N", help="CPU threads of both (default: 1)")
    add_calibration(parser)
    add_timeout(parser)
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Lower (or take it from the cache) and print the placement."""
    from cross_backend.api.export import explain_source
    from cross_backend.cache import Cache
    from cross_backend.comparison.settings import Settings
    from cross_backend.registry import resolve
    from cross_backend.report.terminal import Terminal
    from cross_backend.workloads import find_workload

    targets = [args.backend, *([args.against] if args.against else [])]
    for target in targets:
        resolve(target)  # a wrong name is told before anything is done
    terminal = Terminal(quiet=args.json)
    trust_files(args, [args.model])
    source = find_workload(args.model, args.weights, calibration=args.calibration)
    settings = Settings(threads=args.threads, timeout_s=args.timeout)
    with export_progress(terminal) as observe:
        found = explain_source(source, targets, settings, Cache(), observe)
    if args.json:
        print_json(found.to_json())
    else:
        found.print(terminal)
    return 0
